// Gradients of convolutions as one matrix product, where oneDNN's product is faster than its
// convolution. With a window of one pixel and a stride of 1 the operands lie there already; for
// other gradients of weights what the window covers is gathered first.
#pragma once

#include "sdk/backend/cpu/planner.h"

namespace assay::cpu {

bool prefers_product(const Conv2dGradData& p, const Planner& c);
bool prefers_product(const Conv2dGradWeight& p, const Planner& c);

// Only where prefers_product(). To be called inside plan_with_dnnl.
NodePlan plan_product(const Conv2dGradData& p, const Planner& c, DType compute);
NodePlan plan_product(const Conv2dGradWeight& p, const Planner& c, DType compute);

}  // namespace assay::cpu
