// Gradients of 1x1 convolutions of stride 1, which are matrix products of all pixels' channels,
// where oneDNN's product is faster than its convolution.
#pragma once

#include "sdk/backend/cpu/planner.h"

namespace assay::cpu {

bool prefers_product(const Conv2dGradData& p, const Planner& c);
bool prefers_product(const Conv2dGradWeight& p, const Planner& c);

// Only where prefers_product(). To be called inside plan_with_dnnl.
NodePlan plan_product(const Conv2dGradData& p, const Planner& c, DType compute);
NodePlan plan_product(const Conv2dGradWeight& p, const Planner& c, DType compute);

}  // namespace assay::cpu
