// Softmax, SoftmaxCrossEntropy, its gradient, TopK, TopKCorrect: rows are independent.
#include "sdk/backend/cuda/ops/own_kernel.h"

namespace assay::cuda {

// x, y [N,C].
NodePlan plan(const Softmax& p, const Planner& c) {
  const Dims& dims = c.x(0).dims;
  NodePlan plan = own_plan(p.log ? "log_softmax" : "softmax");
  plan.bind = [element = element_of(c.x(0)), log = p.log, rows = dims[0],
               classes = dims[1]](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), y = b.y<float>()](Queue& q) {
      kernels::softmax(stream_of(q), element, x, log, y, rows, classes);
    };
  };
  return plan;
}

// x [N,C], value, column [N,k].
NodePlan plan(const TopK& p, const Planner& c) {
  const Dims& dims = c.x(0).dims;
  NodePlan plan = own_plan("top_k");
  plan.bind = [element = element_of(c.x(0)), k = p.k, rows = dims[0],
               classes = dims[1]](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), value = b.y<float>(0), column = b.y<int32_t>(1)](Queue& q) {
      kernels::top_k(stream_of(q), element, x, k, value, column, rows, classes);
    };
  };
  return plan;
}

namespace {

template <class Op>
int64_t classes_of(const Op& p, const Dims& x) {
  return p.classes == 0 ? x[1] : p.classes;
}
double constant_of(Reduction reduction, int64_t rows) {
  return reduction == Reduction::kMean ? 1.0 / static_cast<double>(rows) : 1.0;
}

}  // namespace

// x [N,columns], labels, logsumexp [N], loss, count [].
NodePlan plan(const SoftmaxCrossEntropy& p, const Planner& c) {
  const Dims& dims = c.x(0).dims;
  NodePlan plan = own_plan("softmax_xent");
  plan.scratch_bytes = kernels::row_sums_bytes(dims[0], dims[1]);
  plan.bind = [=, element = element_of(c.x(0)), rows = dims[0], columns = dims[1],
               classes = classes_of(p, dims)](const Binding& b) -> Launch {
    const bool counts = p.reduction == Reduction::kCountedMean;
    return [=, factor = constant_of(p.reduction, rows), x = b.x<void>(0), labels = b.x<int32_t>(1),
            loss = b.y<float>(), count = counts ? b.y<float>(1) : nullptr,
            logsumexp = counts ? b.y<float>(2) : nullptr,
            partial = static_cast<double*>(b.scratch)](Queue& q) {
      kernels::cross_entropy(stream_of(q), element, x, labels, p.label_smoothing, factor, rows,
                             classes, columns, partial, logsumexp, loss);
      if (counts)
        kernels::average_counted(stream_of(q), labels, rows, p.epsilon, partial, count, loss);
    };
  };
  return plan;
}

// x, dx [N,columns], labels [N], dloss, count [].
NodePlan plan(const SoftmaxCrossEntropyGrad& p, const Planner& c) {
  const Dims& dims = c.x(0).dims;
  NodePlan plan = own_plan("softmax_xent");
  plan.bind = [=, element = element_of(c.x(0)), rows = dims[0], columns = dims[1],
               classes = classes_of(p, dims)](const Binding& b) -> Launch {
    const kernels::LossFactor factor{
        static_cast<float>(constant_of(p.reduction, rows)), b.x<float>(2),
        p.reduction == Reduction::kCountedMean ? b.x<float>(3) : nullptr, p.epsilon};
    return [=, x = b.x<void>(0), labels = b.x<int32_t>(1), dx = b.y<void>()](Queue& q) {
      kernels::cross_entropy_grad(stream_of(q), element, x, labels, p.label_smoothing, factor, dx,
                                  rows, classes, columns);
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
