// All in f64 on the host; the rate becomes f32 when it is written to the device. std::pow and
// std::cos decide its last bit.
#include "sdk/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

namespace assay::optim {
namespace {

double warmup_factor(const ScheduleConfig& config, int64_t step) {
  const auto steps = static_cast<double>(config.warmup_steps);
  if (!config.warmup_start) return static_cast<double>(step + 1) / steps;
  const double start = *config.warmup_start;
  return start + (1 - start) * static_cast<double>(step) / steps;
}

}  // namespace

double schedule_factor(const ScheduleConfig& config, int64_t step) {
  const int64_t warmup = config.warmup_steps;
  if (step < warmup) return warmup_factor(config, step);
  const std::string& kind = config.name;
  const auto done = static_cast<double>(step - warmup);
  if (kind == "constant") return 1;
  if (kind == "step") {
    const auto& edges = config.boundaries;
    return std::pow(*config.gamma,
                    std::upper_bound(edges.begin(), edges.end(), step) - edges.begin());
  }
  if (kind == "exponential") return std::pow(*config.gamma, done / *config.decay_steps);
  const double end = *config.end_factor;
  const int64_t first = config.decay_from_start.value_or(false) ? 0 : warmup;
  const double t = std::min(
      1.0, static_cast<double>(step - first) / static_cast<double>(*config.total_steps - first));
  if (kind == "cosine") return end + (1 - end) * 0.5 * (1 + std::cos(std::numbers::pi * t));
  return end + (1 - end) * std::pow(1 - t, *config.power);
}

}  // namespace assay::optim
