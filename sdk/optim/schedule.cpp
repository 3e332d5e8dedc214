#include "sdk/optim/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>

#include "sdk/base/expect.h"
#include "sdk/optim/kinds.h"

namespace assay::optim {
namespace {

constexpr double kMost = 1e30;

const std::array<KindKeys, 5>& kinds() {
  static const std::array<KindKeys, 5> kKinds{
      {{"constant", {}},
       {"step", {"boundaries", "gamma"}},
       {"polynomial", {"total_steps", "end_factor", "power"}},
       {"cosine", {"total_steps", "end_factor"}},
       {"exponential", {"gamma", "decay_steps"}}}};
  return kKinds;
}

double warmup_factor(const ScheduleConfig& config, int64_t step) {
  const auto steps = static_cast<double>(config.warmup_steps());
  if (!config.has_warmup_start()) return static_cast<double>(step + 1) / steps;
  const double start = config.warmup_start();
  return start + (1 - start) * static_cast<double>(step) / steps;
}

bool needs_total(const std::string& kind) { return kind == "cosine" || kind == "polynomial"; }

Key key(std::string_view path) { return {"trainer", path}; }

void check_kind(const ScheduleConfig& config) {
  const std::string& kind = config.name();
  if (needs_total(kind)) {
    expect(config.total_steps() > config.warmup_steps(), key("schedule.total_steps"),
           config.total_steps(), "more than warmup_steps (", config.warmup_steps(), ") for ", kind);
    expect_number(key("schedule.end_factor"), config.end_factor(), {0, kMost});
  }
  if (kind == "polynomial")
    expect_number(key("schedule.power"), config.power(), {0, kMost, false, false});
  if (config.has_gamma())
    expect_number(key("schedule.gamma"), config.gamma(), {0, kMost, false, false});
  if (kind == "exponential")
    expect_number(key("schedule.decay_steps"), config.decay_steps(), {0, kMost, false, false});
  if (kind != "step") return;
  const auto& edges = config.boundaries();
  expect(!edges.empty(), key("schedule.boundaries"), "not given",
         "the steps at which the rate falls");
  expect(std::is_sorted(edges.begin(), edges.end()), key("schedule.boundaries"), "unordered",
         "increasing steps");
}

}  // namespace

ScheduleConfig with_defaults(ScheduleConfig config) {
  if (config.ByteSizeLong() == 0) config.set_name("constant");
  const std::string& kind = config.name();
  if (needs_total(kind) && !config.has_end_factor()) config.set_end_factor(0);
  if (kind == "polynomial" && !config.has_power()) config.set_power(1);
  if ((kind == "step" || kind == "exponential") && !config.has_gamma()) config.set_gamma(0.1);
  return config;
}

void check(const ScheduleConfig& config) {
  expect_one_of(key("schedule.name"), config.name(),
                {"constant", "step", "polynomial", "cosine", "exponential"});
  check_kind_keys("schedule", config, config.name(), kinds());
  expect(config.warmup_steps() >= 0, key("schedule.warmup_steps"), config.warmup_steps(),
         "0 or more");
  if (config.has_warmup_start()) {
    expect_number(key("schedule.warmup_start"), config.warmup_start(), {0, kMost});
    expect(config.warmup_steps() > 0, key("schedule.warmup_steps"), config.warmup_steps(),
           "1 or more with warmup_start");
  }
  check_kind(config);
}

double schedule_factor(const ScheduleConfig& config, int64_t step) {
  const int64_t warmup = config.warmup_steps();
  if (step < warmup) return warmup_factor(config, step);
  const std::string& kind = config.name();
  const double end = config.end_factor();
  if (kind == "step") {
    const auto& edges = config.boundaries();
    return std::pow(config.gamma(),
                    std::upper_bound(edges.begin(), edges.end(), step) - edges.begin());
  }
  if (kind == "exponential") {
    return std::pow(config.gamma(), static_cast<double>(step - warmup) / config.decay_steps());
  }
  if (!needs_total(kind)) return 1;
  const double t = std::min(
      1.0, static_cast<double>(step - warmup) / static_cast<double>(config.total_steps() - warmup));
  if (kind == "cosine") return end + (1 - end) * 0.5 * (1 + std::cos(std::numbers::pi * t));
  return end + (1 - end) * std::pow(1 - t, config.power());
}

}  // namespace assay::optim
