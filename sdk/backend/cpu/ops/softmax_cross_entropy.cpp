// Softmax, SoftmaxCrossEntropy, its gradient, TopK, TopKCorrect: rows are independent.
#include "sdk/backend/cpu/ops/loss_reduction.h"
#include "sdk/backend/cpu/ops/own_kernel.h"

namespace assay::cpu {
namespace {

// An exponential costs about as much as moving 8 elements.
Chunks rows_of(const Dims& x) { return chunks_of(x[0], 8 * x[1]); }

template <class Op>
int64_t classes_of(const Op& p, const Dims& x) {
  return p.classes == 0 ? x[1] : p.classes;
}

}  // namespace

// x, y [N,C].
NodePlan plan(const Softmax& p, const Planner& c) {
  const Dims& dims = c.x(0).dims;
  NodePlan plan = own_plan(p.log ? "log_softmax" : "softmax");
  const SoftmaxKernels& kernel = *kernels().softmax;
  const auto run = (p.log ? kernel.log_softmax : kernel.softmax)[element_of(c.x(0))];
  plan.bind = [=, classes = dims[1], size = dtype_size(c.x(0).dtype), rows = rows_of(dims),
               threads = c.threads()](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), y = b.y<float>()](Queue&) {
      parallel_for(threads, rows.count(), [&](int64_t i) {
        const int64_t begin = rows.begin(i) * classes;
        run(at(x, begin, size), y + begin, rows.length(i), classes);
      });
    };
  };
  return plan;
}

// x [N,columns], labels, logsumexp [N], loss, count []; partial sums of ranges of rows are added in
// their order.
NodePlan plan(const SoftmaxCrossEntropy& p, const Planner& c) {
  const Dims& dims = c.x(0).dims;
  NodePlan plan = own_plan("softmax_xent");
  const Chunks rows = rows_of(dims);
  plan.scratch_bytes = static_cast<size_t>(rows.count()) * sizeof(double);
  const LossReduction reduction{p.reduction, p.epsilon, dims[0]};
  const auto run = kernels().softmax->cross_entropy[element_of(c.x(0))];
  plan.bind = [=, smoothing = p.label_smoothing, classes = classes_of(p, dims), columns = dims[1],
               size = dtype_size(c.x(0).dtype), threads = c.threads()](const Binding& b) -> Launch {
    const bool counts = reduction.counts();
    return [=, x = b.x<void>(0), labels = b.x<int32_t>(1), loss = b.y<float>(),
            count = counts ? b.y<float>(1) : nullptr, sums = counts ? b.y<float>(2) : nullptr,
            partial = static_cast<double*>(b.scratch)](Queue&) {
      const double sum = sum_in_order(threads, rows.count(), partial, [&](int64_t i) {
        const int64_t begin = rows.begin(i);
        return run(at(x, begin * columns, size), labels + begin, smoothing, rows.length(i), classes,
                   columns, counts ? sums + begin : nullptr);
      });
      if (counts) *count = reduction.count(labels);
      *loss = static_cast<float>(reduction.factor(count) * sum);
    };
  };
  return plan;
}

// x, dx [N,columns], labels [N], dloss, count [].
NodePlan plan(const SoftmaxCrossEntropyGrad& p, const Planner& c) {
  const Dims& dims = c.x(0).dims;
  NodePlan plan = own_plan("softmax_xent");
  const LossReduction reduction{p.reduction, p.epsilon, dims[0]};
  const auto run = kernels().softmax->cross_entropy_grad[element_of(c.x(0))];
  plan.bind = [=, smoothing = p.label_smoothing, classes = classes_of(p, dims), columns = dims[1],
               size = dtype_size(c.x(0).dtype), rows = rows_of(dims),
               threads = c.threads()](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), labels = b.x<int32_t>(1), dloss = b.x<float>(2),
            count = reduction.counts() ? b.x<float>(3) : nullptr, dx = b.y<void>()](Queue&) {
      const float factor = *dloss * static_cast<float>(reduction.factor(count));
      parallel_for(threads, rows.count(), [&](int64_t i) {
        const int64_t begin = rows.begin(i);
        run(at(x, begin * columns, size), labels + begin, smoothing, factor,
            at(dx, begin * columns, size), rows.length(i), classes, columns);
      });
    };
  };
  return plan;
}

// x [N,C], value, column [N,k].
NodePlan plan(const TopK& p, const Planner& c) {
  const Dims& dims = c.x(0).dims;
  NodePlan plan = own_plan("top_k");
  const auto run = kernels().softmax->top_k[element_of(c.x(0))];
  plan.bind = [=, k = p.k, classes = dims[1], size = dtype_size(c.x(0).dtype), rows = rows_of(dims),
               threads = c.threads()](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), value = b.y<float>(0), column = b.y<int32_t>(1)](Queue&) {
      parallel_for(threads, rows.count(), [&](int64_t i) {
        const int64_t begin = rows.begin(i);
        run(at(x, begin * classes, size), k, value + begin * k, column + begin * k, rows.length(i),
            classes);
      });
    };
  };
  return plan;
}

// x [N,C], labels [N], count [].
NodePlan plan(const TopKCorrect& p, const Planner& c) {
  const Dims& dims = c.x(0).dims;
  NodePlan plan = own_plan("rank_of_label");
  const Chunks rows = chunks_of(dims[0], dims[1]);
  plan.scratch_bytes = static_cast<size_t>(rows.count()) * sizeof(int64_t);
  const auto run = kernels().softmax->top_k_correct[element_of(c.x(0))];
  plan.bind = [=, k = p.k, classes = dims[1], size = dtype_size(c.x(0).dtype),
               threads = c.threads()](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), labels = b.x<int32_t>(1), count = b.y<float>(),
            partial = static_cast<int64_t*>(b.scratch)](Queue&) {
      const int64_t sum = sum_in_order(threads, rows.count(), partial, [&](int64_t i) {
        const int64_t begin = rows.begin(i);
        return run(at(x, begin * classes, size), labels + begin, k, rows.length(i), classes);
      });
      *count = static_cast<float>(sum);
    };
  };
  return plan;
}

}  // namespace assay::cpu
