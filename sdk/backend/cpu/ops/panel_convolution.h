// Convolutions as products of f32 in panels, where oneDNN has but its kernel for AVX2: the left
// operand are windows, which stand in the image, the right one filters. A convolution transposed,
// with a stride of 2, is four such products, of every other row and column of the result each.
#pragma once

#include "sdk/backend/cpu/planner.h"

namespace assay::cpu {

bool prefers_panels(const Conv2d& p, const Planner& c);
bool prefers_panels(const Conv2dGradData& p, const Planner& c);
bool prefers_panels(const Conv2dTranspose& p, const Planner& c);

// Only where prefers_panels(). The activation of Conv2dGradData is left to the caller.
NodePlan plan_in_panels(const Conv2d& p, const Planner& c);
NodePlan plan_in_panels(const Conv2dGradData& p, const Planner& c);
NodePlan plan_in_panels(const Conv2dTranspose& p, const Planner& c);

}  // namespace assay::cpu
