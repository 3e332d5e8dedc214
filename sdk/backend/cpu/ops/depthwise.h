// Weight gradients of depthwise convolutions by own kernels: oneDNN 2.6 has none for windows of 5.
#pragma once

#include "sdk/backend/cpu/planner.h"

namespace assay::cpu {

bool prefers_depthwise(const Conv2dGradWeight& p, const Planner& c);
// Only where prefers_depthwise().
NodePlan plan_depthwise(const Conv2dGradWeight& p, const Planner& c);

}  // namespace assay::cpu
