// The gradient of a convolution's filters, in f32, as one product of sums over pixels of either
// type, some of them at a time, where oneDNN has but its kernel for AVX2.
#pragma once

#include "sdk/backend/cpu/planner.h"

namespace assay::cpu {

bool prefers_pixel_sum(const Conv2dGradWeight& p, const Planner& c);

// Only where prefers_pixel_sum().
NodePlan plan_pixel_sum(const Conv2dGradWeight& p, const Planner& c);

}  // namespace assay::cpu
