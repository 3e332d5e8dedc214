// Products of matrices in panels: of bf16 in the tiles of AMX, and as f32 where oneDNN has but
// kernels for AVX2.
#pragma once

#include <functional>

#include "sdk/backend/cpu/planner.h"

namespace assay::cpu {

// The plan in panels where that is faster, whenever it runs or only where b was prepared; otherwise
// `other`.
NodePlan plan_in_panels_or(const Matmul& p, const Planner& c,
                           const std::function<NodePlan()>& other);

}  // namespace assay::cpu
