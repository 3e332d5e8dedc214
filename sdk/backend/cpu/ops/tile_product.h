// Products of bf16 in the tiles of AMX.
#pragma once

#include <functional>

#include "sdk/backend/cpu/planner.h"

namespace assay::cpu {

// The plan in tiles where that is faster, whenever it runs or only where b was prepared; otherwise
// `other`.
NodePlan plan_in_tiles_or(const Matmul& p, const Planner& c,
                          const std::function<NodePlan()>& other);

}  // namespace assay::cpu
