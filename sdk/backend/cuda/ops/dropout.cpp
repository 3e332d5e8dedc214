// Dropout: the mask follows from seed, stream, step and element number, so nothing is kept of it.
#include "sdk/backend/cuda/ops/dropout.h"

#include "sdk/backend/cuda/ops/own_kernel.h"

namespace assay::cuda {

// x, y any dims, dense; step [].
NodePlan plan(const Dropout& p, const Planner& c) {
  NodePlan plan = own_plan("philox");
  const kernels::DropoutArgs args = dropout_args(p);
  plan.bind = [=, element = element_of(c.y()), n = c.y().numel()](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), step = b.x<int64_t>(1), y = b.y<void>()](Queue& q) {
      kernels::dropout(stream_of(q), element, args, step, x, y, n);
    };
  };
  return plan;
}

}  // namespace assay::cuda
