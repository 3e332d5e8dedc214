// Convolutions of 3x3 and 5x5 windows by Winograd's method (kernels/winograd.cpp), where that is
// faster.
//
// It does a quarter, or a third, of the multiplications in exchange for transforms of images and
// filters. The arithmetic is f32 for either data type, and the sums have a fixed order on any
// number of threads.
#pragma once

#include "sdk/backend/cpu/planner.h"

namespace assay::cpu {

// Decided by sizes and the processor's instructions alone, so that the same graph always gets the
// same kernels.
bool prefers_winograd(const Conv2d& p, const Planner& c);
bool prefers_winograd(const Conv2dGradData& p, const Planner& c);
bool prefers_winograd(const Conv2dGradWeight& p, const Planner& c);

// Only where prefers_winograd().
NodePlan plan_winograd(const Conv2d& p, const Planner& c);
NodePlan plan_winograd(const Conv2dGradData& p, const Planner& c);
NodePlan plan_winograd(const Conv2dGradWeight& p, const Planner& c);

}  // namespace assay::cpu
