// FoldBatchNorm and RunningStatistics: a few numbers per channel.
#include <cmath>
#include <vector>

#include "sdk/backend/cpu/planner.h"

namespace assay::cpu {
namespace {

struct MovedStatistics {
  int64_t channels;
  float *running_mean, *running_var;
  const float *mean, *var;
};

}  // namespace

// w, folded [K,R,S,C]; the other inputs and bias [K].
NodePlan plan(const FoldBatchNorm& p, const Planner& c) {
  NodePlan plan;
  plan.kernel = "own:fold";
  const int64_t filters = c.x(0).dims[0];
  plan.bind = [filters, size = c.x(0).numel() / filters,
               epsilon = p.epsilon](const Binding& b) -> Launch {
    return [=, w = b.x<float>(0), gamma = b.x<float>(1), beta = b.x<float>(2), mean = b.x<float>(3),
            var = b.x<float>(4), folded = b.y<float>(0), bias = b.y<float>(1)](Queue&) {
      for (int64_t k = 0; k < filters; ++k) {
        const double scale = gamma[k] / std::sqrt(static_cast<double>(var[k]) + epsilon);
        for (int64_t i = k * size; i < (k + 1) * size; ++i) {
          folded[i] = static_cast<float>(w[i] * scale);
        }
        bias[k] = static_cast<float>(beta[k] - mean[k] * scale);
      }
    };
  };
  return plan;
}

// All [C_i] but loss [], which gates the update.
NodePlan plan(const RunningStatistics& p, const Planner& c) {
  NodePlan plan;
  plan.kernel = "own:running_statistics";
  const int n = c.n_inputs() / 4;
  std::vector<int64_t> channels;
  for (int i = 0; i < n; ++i) channels.push_back(c.x(i).numel());
  const double count = static_cast<double>(p.count);
  const double unbias = p.count > 1 ? count / (count - 1) : 1.0;
  plan.bind = [=, momentum = static_cast<double>(p.momentum)](const Binding& b) -> Launch {
    std::vector<MovedStatistics> norms;
    for (int i = 0; i < n; ++i)
      norms.push_back({channels[static_cast<size_t>(i)], b.y<float>(i), b.y<float>(n + i),
                       b.x<float>(2 * n + i), b.x<float>(3 * n + i)});
    return [=, loss = b.x<float>(4 * n)](Queue&) {
      if (!std::isfinite(*loss)) return;
      for (const MovedStatistics& s : norms) {
        for (int64_t k = 0; k < s.channels; ++k) {
          if (!std::isfinite(s.mean[k]) || !std::isfinite(s.var[k])) continue;
          s.running_mean[k] =
              static_cast<float>((1 - momentum) * s.running_mean[k] + momentum * s.mean[k]);
          s.running_var[k] =
              static_cast<float>((1 - momentum) * s.running_var[k] + momentum * s.var[k] * unbias);
        }
      }
    };
  };
  return plan;
}

}  // namespace assay::cpu
