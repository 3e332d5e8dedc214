// SigmoidCrossEntropy and its gradient.
#include "sdk/backend/cuda/ops/own_kernel.h"

namespace assay::cuda {

// x, target [N], loss, count [].
NodePlan plan(const SigmoidCrossEntropy& p, const Planner& c) {
  const int64_t n = c.x(0).numel();
  NodePlan plan = own_plan("sigmoid_xent");
  plan.scratch_bytes = static_cast<size_t>(n) * sizeof(double);
  plan.bind = [=, element = element_of(c.x(0))](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), target = b.x<int32_t>(1), loss = b.y<float>(0),
            count = b.y<float>(1), partial = static_cast<double*>(b.scratch)](Queue& q) {
      kernels::sigmoid_cross_entropy(stream_of(q), element, x, target, n, partial, loss);
      kernels::average_counted(stream_of(q), target, n, p.epsilon, partial, count, loss);
    };
  };
  return plan;
}

// x, dx, target [N], dloss, count [].
NodePlan plan(const SigmoidCrossEntropyGrad& p, const Planner& c) {
  NodePlan plan = own_plan("sigmoid_xent");
  plan.bind = [n = c.x(0).numel(), epsilon = p.epsilon,
               element = element_of(c.x(0))](const Binding& b) -> Launch {
    const kernels::LossFactor factor{1.0f, b.x<float>(2), b.x<float>(3), epsilon};
    return [=, x = b.x<void>(0), target = b.x<int32_t>(1), dx = b.y<void>()](Queue& q) {
      kernels::sigmoid_cross_entropy_grad(stream_of(q), element, x, target, factor, dx, n);
    };
  };
  return plan;
}

}  // namespace assay::cuda
