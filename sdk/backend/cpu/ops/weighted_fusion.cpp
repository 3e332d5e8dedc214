// WeightedFusion and its gradient: rows of pixels are independent but for the sums that give dw,
// which are taken over ranges of rows first, and over the ranges in their order, in f64.
#include "sdk/backend/cpu/ops/own_kernel.h"

namespace assay::cpu {
namespace {

// Inputs 1 to `count` fused into images of these dims.
struct Fusion {
  FusionArgs args{};
  float epsilon;
  Chunks pairs{};  // of rows; where there is an odd one, it is alone in the last
  int64_t rows;

  template <class Op>
  Fusion(const Op& p, const Planner& c, int count, const Dims& dims)
      : epsilon(p.epsilon), rows(dims[0] * dims[1]) {
    args.count = count;
    for (int i = 0; i < count; ++i) args.is_half[i] = c.x(1 + i).dims != dims;
    args.width = dims[2];
    args.channels = dims[3];
    args.activation = p.activation;
    pairs = chunks_of(quotient_up(rows, 2), 2 * dims[2] * dims[3]);
  }
  int64_t begin(int64_t task) const { return 2 * pairs.begin(task); }
  int64_t end(int64_t task) const { return std::min(rows, 2 * pairs.end(task)); }

  // With addresses, but for the shares, which are this step's.
  FusionArgs bound(const Binding& b) const {
    FusionArgs bound = args;
    for (int i = 0; i < args.count; ++i) bound.x[i] = b.x<void>(1 + i);
    return bound;
  }
  // w by this; gives the shares.
  float divide(const float* w, FusionArgs& to) const {
    float total = epsilon;
    for (int i = 0; i < args.count; ++i) total += w[i];
    for (int i = 0; i < args.count; ++i) to.share[i] = w[i] / total;
    return total;
  }
};

}  // namespace

// w [n], x_i and y images.
NodePlan plan(const WeightedFusion& p, const Planner& c) {
  NodePlan plan = own_plan("weighted_fusion");
  const Fusion fusion(p, c, c.n_inputs() - 1, c.y().dims);
  const auto run = kernels().fusion->forward[element_of(c.y())];
  plan.bind = [=, threads = c.threads()](const Binding& b) -> Launch {
    return [=, args = fusion.bound(b), w = b.x<float>(0), y = b.y<void>()](Queue&) {
      FusionArgs now = args;
      fusion.divide(w, now);
      parallel_for(threads, fusion.pairs.count(),
                   [&](int64_t i) { run(now, y, fusion.begin(i), fusion.end(i)); });
    };
  };
  return plan;
}

// w, dw [n], x_i, dy and dx_i images. With t_i the sums of x_i g and s_i the shares of w by its
// sum: dw_i = (t_i - sum_j s_j t_j) / (sum of w).
NodePlan plan(const WeightedFusionGrad& p, const Planner& c) {
  NodePlan plan = own_plan("weighted_fusion");
  const int count = c.n_inputs() - 2;
  const Fusion fusion(p, c, count, c.x(count + 1).dims);
  const int64_t tasks = fusion.pairs.count();
  plan.scratch_bytes = static_cast<size_t>(tasks * count) * sizeof(double);
  const auto run = kernels().fusion->backward[element_of(c.x(1))];
  plan.bind = [=, threads = c.threads()](const Binding& b) -> Launch {
    std::array<void*, kMostFusedImages> dx{};
    for (int i = 0; i < count; ++i) dx[static_cast<size_t>(i)] = b.y<void>(1 + i);
    return [=, args = fusion.bound(b), w = b.x<float>(0), dy = b.x<void>(count + 1),
            dw = b.y<float>(0), partial = static_cast<double*>(b.scratch)](Queue&) {
      FusionArgs now = args;
      const auto total = static_cast<double>(fusion.divide(w, now));
      parallel_for(threads, tasks, [&](int64_t i) {
        run(now, dy, dx.data(), fusion.begin(i), fusion.end(i), partial + i * count);
      });
      double sums[kMostFusedImages] = {}, mean = 0;
      for (int64_t task = 0; task < tasks; ++task)
        for (int i = 0; i < count; ++i) sums[i] += partial[task * count + i];
      for (int i = 0; i < count; ++i) mean += static_cast<double>(now.share[i]) * sums[i];
      for (int i = 0; i < count; ++i) dw[i] = static_cast<float>((sums[i] - mean) / total);
    };
  };
  return plan;
}

}  // namespace assay::cpu
