// Softmax, SoftmaxCrossEntropy, its gradient, TopKCorrect: rows are independent.
#include "sdk/backend/cuda/ops/own_kernel.h"

namespace assay::cuda {

// x, y [N,C].
NodePlan plan(const Softmax&, const Planner& c) {
  const Dims& dims = c.x(0).dims;
  NodePlan plan = own_plan("softmax");
  plan.bind = [element = element_of(c.x(0)), rows = dims[0],
               classes = dims[1]](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), y = b.y<float>()](Queue& q) {
      kernels::softmax(stream_of(q), element, x, y, rows, classes);
    };
  };
  return plan;
}

// x [N,C], labels [N], loss [].
NodePlan plan(const SoftmaxCrossEntropy& p, const Planner& c) {
  const Dims& dims = c.x(0).dims;
  NodePlan plan = own_plan("softmax_xent");
  plan.scratch_bytes = kernels::row_sums_bytes(dims[0], dims[1]);
  const double factor = p.mean ? 1.0 / static_cast<double>(dims[0]) : 1.0;
  plan.bind = [=, element = element_of(c.x(0)), smoothing = p.label_smoothing, rows = dims[0],
               classes = dims[1]](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), labels = b.x<int32_t>(1), loss = b.y<float>(),
            partial = static_cast<double*>(b.scratch)](Queue& q) {
      kernels::cross_entropy(stream_of(q), element, x, labels, smoothing, factor, rows, classes,
                             partial, loss);
    };
  };
  return plan;
}

// x, dx [N,C], labels [N], dloss [].
NodePlan plan(const SoftmaxCrossEntropyGrad& p, const Planner& c) {
  const Dims& dims = c.x(0).dims;
  NodePlan plan = own_plan("softmax_xent");
  const float factor = p.mean ? 1.0f / static_cast<float>(dims[0]) : 1.0f;
  plan.bind = [=, element = element_of(c.x(0)), smoothing = p.label_smoothing, rows = dims[0],
               classes = dims[1]](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), labels = b.x<int32_t>(1), dloss = b.x<float>(2),
            dx = b.y<void>()](Queue& q) {
      kernels::cross_entropy_grad(stream_of(q), element, x, labels, smoothing, factor, dloss, dx,
                                  rows, classes);
    };
  };
  return plan;
}

// x [N,C], labels [N], count [].
NodePlan plan(const TopKCorrect& p, const Planner& c) {
  const Dims& dims = c.x(0).dims;
  NodePlan plan = own_plan("rank_of_label");
  plan.scratch_bytes = kernels::row_sums_bytes(dims[0], dims[1]);
  plan.bind = [=, element = element_of(c.x(0)), k = p.k, rows = dims[0],
               classes = dims[1]](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), labels = b.x<int32_t>(1), count = b.y<float>(),
            partial = static_cast<double*>(b.scratch)](Queue& q) {
      kernels::top_k_correct(stream_of(q), element, x, labels, k, rows, classes, partial, count);
    };
  };
  return plan;
}

}  // namespace assay::cuda
