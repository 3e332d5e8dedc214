#include "sdk/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "sdk/base/error.h"

namespace assay::optim {
namespace {

std::string kind_of(const ScheduleConfig& config) {
  return config.name().empty() ? "constant" : config.name();
}

double warmup_factor(const ScheduleConfig& config, int64_t step) {
  const auto steps = static_cast<double>(config.warmup_steps());
  if (!config.has_warmup_start()) return static_cast<double>(step + 1) / steps;
  const double start = config.warmup_start();
  return start + (1 - start) * static_cast<double>(step) / steps;
}

bool needs_total(const std::string& kind) { return kind == "cosine" || kind == "polynomial"; }

}  // namespace

void check_schedule(const ScheduleConfig& config) {
  const std::string kind = kind_of(config);
  const auto check = [](bool ok, std::string_view what) {
    require(ok, Code::kInvalid, "schedule: ", what);
  };
  check(kind == "constant" || kind == "step" || kind == "exponential" || needs_total(kind),
        cat("unknown name \"", kind, "\"; use constant, step, polynomial, cosine or exponential"));
  check(config.warmup_steps() >= 0, "warmup_steps must not be negative");
  check(config.warmup_start() >= 0 && std::isfinite(config.warmup_start()),
        "warmup_start must not be negative");
  check(!config.has_warmup_start() || config.warmup_steps() > 0, "warmup_start needs warmup_steps");
  check(!needs_total(kind) || config.total_steps() > config.warmup_steps(),
        cat(kind, " needs total_steps greater than warmup_steps (", config.warmup_steps(),
            "), got ", config.total_steps()));
  check(kind != "exponential" || config.decay_steps() > 0,
        "exponential needs decay_steps greater than 0");
  check(kind != "step" || config.boundaries_size() > 0, "step needs boundaries");
  check(std::is_sorted(config.boundaries().begin(), config.boundaries().end()),
        "boundaries must increase");
  check(config.end_factor() >= 0 && std::isfinite(config.end_factor()),
        "end_factor must not be negative");
  check(!config.has_gamma() || (config.gamma() > 0 && std::isfinite(config.gamma())),
        "gamma must be positive");
  check(!config.has_power() || (config.power() > 0 && std::isfinite(config.power())),
        "power must be positive");
}

double schedule_factor(const ScheduleConfig& config, int64_t step) {
  const int64_t warmup = config.warmup_steps();
  if (step < warmup) return warmup_factor(config, step);
  const std::string kind = kind_of(config);
  const double gamma = config.has_gamma() ? config.gamma() : 0.1;
  const double end = config.end_factor();
  if (kind == "step") {
    const auto& edges = config.boundaries();
    return std::pow(gamma, std::upper_bound(edges.begin(), edges.end(), step) - edges.begin());
  }
  if (kind == "exponential") {
    return std::pow(gamma, static_cast<double>(step - warmup) / config.decay_steps());
  }
  if (!needs_total(kind)) return 1;
  const double t = std::min(
      1.0, static_cast<double>(step - warmup) / static_cast<double>(config.total_steps() - warmup));
  if (kind == "cosine") return end + (1 - end) * 0.5 * (1 + std::cos(std::numbers::pi * t));
  return end + (1 - end) * std::pow(1 - t, config.has_power() ? config.power() : 1.0);
}

}  // namespace assay::optim
