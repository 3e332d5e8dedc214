// SigmoidCrossEntropy and its gradient: partial sums of ranges are added in their order.
#include "sdk/backend/cpu/ops/loss_reduction.h"
#include "sdk/backend/cpu/ops/own_kernel.h"

namespace assay::cpu {
namespace {

// An exponential and a logarithm cost about as much as moving 16 elements.
Chunks ranges_of(const Dims& x) { return chunks_of(x[0], 16); }

}  // namespace

// x, target [N], loss, count [].
NodePlan plan(const SigmoidCrossEntropy& p, const Planner& c) {
  NodePlan plan = own_plan("sigmoid_xent");
  const Chunks ranges = ranges_of(c.x(0).dims);
  plan.scratch_bytes = static_cast<size_t>(ranges.count()) * sizeof(double);
  const LossReduction reduction{Reduction::kCountedMean, p.epsilon, ranges.total};
  const auto run = kernels().sigmoid->cross_entropy[element_of(c.x(0))];
  plan.bind = [=, size = dtype_size(c.x(0).dtype),
               threads = c.threads()](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), target = b.x<int32_t>(1), loss = b.y<float>(0),
            count = b.y<float>(1), partial = static_cast<double*>(b.scratch)](Queue&) {
      const double sum = sum_in_order(threads, ranges.count(), partial, [&](int64_t i) {
        const int64_t begin = ranges.begin(i);
        return run(at(x, begin, size), target + begin, ranges.length(i));
      });
      *count = reduction.count(target);
      *loss = static_cast<float>(reduction.factor(count) * sum);
    };
  };
  return plan;
}

// x, dx, target [N], dloss, count [].
NodePlan plan(const SigmoidCrossEntropyGrad& p, const Planner& c) {
  NodePlan plan = own_plan("sigmoid_xent");
  const Chunks ranges = ranges_of(c.x(0).dims);
  const LossReduction reduction{Reduction::kCountedMean, p.epsilon, ranges.total};
  const auto run = kernels().sigmoid->cross_entropy_grad[element_of(c.x(0))];
  plan.bind = [=, size = dtype_size(c.x(0).dtype),
               threads = c.threads()](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), target = b.x<int32_t>(1), dloss = b.x<float>(2),
            count = b.x<float>(3), dx = b.y<void>()](Queue&) {
      const float factor = *dloss * static_cast<float>(reduction.factor(count));
      parallel_for(threads, ranges.count(), [&](int64_t i) {
        const int64_t begin = ranges.begin(i);
        run(at(x, begin, size), target + begin, factor, at(dx, begin, size), ranges.length(i));
      });
    };
  };
  return plan;
}

}  // namespace assay::cpu
