// The measures of noise and their limits, for steps, repeats, host and GPU.
#include "tools/recipe_run/stats/noise.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/recipe_run/stats/distributions.h"
#include "tools/recipe_run/stats/means.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// All pairs of more would take seconds; the median hardly moves.
constexpr size_t kMaxSlopePoints = 600;
// A step that is longer by this share of the median is no outlier, however quiet the others are.
constexpr double kUsual = 0.02;

NoiseCheck judge(std::string name, double value, double warn, double block) {
  NoiseCheck check{std::move(name), value, warn, block, NoiseLevel::kQuiet};
  if (value > warn) check.level = NoiseLevel::kWarn;
  if (value > block) check.level = NoiseLevel::kBlock;
  return check;
}

}  // namespace

double theil_sen_slope(std::span<const double> samples) {
  const size_t stride = (samples.size() + kMaxSlopePoints - 1) / kMaxSlopePoints;
  std::vector<double> slopes;
  for (size_t i = 0; i < samples.size(); i += stride) {
    for (size_t j = i + stride; j < samples.size(); j += stride) {
      slopes.push_back((samples[j] - samples[i]) / static_cast<double>(j - i));
    }
  }
  return slopes.empty() ? 0 : median(slopes);
}

bool has_trend(std::span<const double> samples) {
  double rising = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    for (size_t j = i + 1; j < samples.size(); ++j)
      rising += samples[j] > samples[i] ? 1 : samples[j] < samples[i] ? -1 : 0;
  }
  const double n = static_cast<double>(samples.size());
  const double sd = std::sqrt(n * (n - 1) * (2 * n + 5) / 18);
  return sd > 0 && (std::abs(rising) - 1) / sd > normal_quantile(0.975);
}

double scaled_mad(std::span<const double> samples) {
  const double middle = median(samples);
  std::vector<double> distances;
  for (double x : samples) distances.push_back(std::abs(x - middle));
  return 1.4826 * median(distances);
}

TwoModes two_means(std::span<const double> samples) {
  // In one dimension the best split is one of n - 1 cuts of the sorted list.
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const size_t n = sorted.size();
  double total = 0;
  for (double x : sorted) total += x;
  const double mean = total / static_cast<double>(n);
  double variance = 0;
  for (double x : sorted) variance += (x - mean) * (x - mean);
  TwoModes best;
  double left = 0;
  for (size_t cut = 1; variance > 0 && cut < n; ++cut) {
    left += sorted[cut - 1];
    const double a = left / static_cast<double>(cut);
    const double b = (total - left) / static_cast<double>(n - cut);
    const double between = static_cast<double>(cut) * (a - mean) * (a - mean) +
                           static_cast<double>(n - cut) * (b - mean) * (b - mean);
    if (between / variance > best.gain) {
      const double minor = static_cast<double>(std::min(cut, n - cut)) / static_cast<double>(n);
      best = {between / variance, minor, a, b};
    }
  }
  return best;
}

std::vector<NoiseCheck> step_checks(std::span<const double> samples) {
  std::vector<NoiseCheck> checks;
  if (samples.size() < 8) return checks;
  const double middle = median(samples);
  const double mad = scaled_mad(samples);
  const double n = static_cast<double>(samples.size());
  checks.push_back(judge("drift", std::abs(theil_sen_slope(samples)) * n / middle, 0.01, 0.03));
  checks.push_back(judge("step spread", mad / middle, 0.02, 0.08));
  const TwoModes modes = two_means(samples);
  // Two modes that differ by less than a tenth of a per cent are the clock's granularity, not the
  // machine's behaviour.
  const bool bimodal =
      modes.gain > 0.9 && modes.minor_fraction > 0.1 && modes.high - modes.low > 1e-3 * middle;
  // The tail is what lies far above all that is usual: the upper of two modes is usual, and on a
  // very quiet machine a step that is a hundredth longer is.
  const double usual = (bimodal ? modes.high : middle) + std::max(10 * mad, kUsual * middle);
  const auto outliers =
      std::count_if(samples.begin(), samples.end(), [&](double x) { return x > usual; });
  checks.push_back(judge("tail", static_cast<double>(outliers) / n, 0.005, 0.05));
  checks.push_back(judge("two modes", bimodal ? modes.minor_fraction : 0, 0, kNever));
  return checks;
}

NoiseCheck repeat_check(std::span<const double> repeats) {
  const auto [low, high] = std::minmax_element(repeats.begin(), repeats.end());
  return judge("repeats", (*high - *low) / median(repeats), 0.02, 0.05);
}

NoiseCheck probe_check(std::span<const double> probes) {
  const auto [low, high] = std::minmax_element(probes.begin(), probes.end());
  return judge("A/A probe", (*high - *low) / *low, 0.01, 0.03);
}

std::vector<NoiseCheck> host_checks(const HostWindow& window) {
  std::vector<NoiseCheck> checks;
  // Threads of our own may outnumber the CPUs and wait for one another; others cannot have taken
  // more than they used.
  const double taken = std::max(0.0, std::min(window.pressure, window.foreign_cpu));
  if (window.steal >= 0 || window.pressure >= 0)
    checks.push_back(judge("stolen CPU", std::max(0.0, window.steal) + taken, 0.01, 0.05));
  if (window.throttled >= 0)
    checks.push_back(judge("cgroup throttling", window.throttled, 0, 0.01));
  if (window.foreign_cpu >= 0)
    checks.push_back(judge("foreign CPU", window.foreign_cpu, 0.02, kNever));
  return checks;
}

std::vector<NoiseCheck> gpu_checks(const GpuWindow& window) {
  std::vector<NoiseCheck> checks;
  const auto add = [&](const char* name, double value, double warn, double block) {
    if (value >= 0) checks.push_back(judge(name, value, warn, block));
  };
  add("GPU clock drop", window.clock_drop, 0.02, 0.07);
  add("GPU power cap", window.power_capped, 0.01, kNever);
  add("GPU slow-down", window.slowed, 0, 0);
  add("foreign GPU process", window.foreign, 0, 0);
  return checks;
}

void keep_worst(std::vector<NoiseCheck>& checks, const std::vector<NoiseCheck>& more) {
  for (const NoiseCheck& check : more) {
    const auto same = std::find_if(checks.begin(), checks.end(),
                                   [&](const NoiseCheck& c) { return c.name == check.name; });
    if (same == checks.end()) {
      checks.push_back(check);
    } else if (check.value > same->value) {
      *same = check;
    }
  }
}

NoiseLevel worst(std::span<const NoiseCheck> checks) {
  NoiseLevel level = NoiseLevel::kQuiet;
  for (const NoiseCheck& check : checks) level = std::max(level, check.level);
  return level;
}

std::string noise_text(std::span<const NoiseCheck> checks) {
  std::vector<std::string> parts;
  for (const NoiseCheck& check : checks) {
    if (check.level == NoiseLevel::kQuiet) continue;
    const double limit = check.level == NoiseLevel::kBlock ? check.block : check.warn;
    parts.push_back(fmt::format("{} {} % (limit {} %)", check.name, fixed(100 * check.value, 1),
                                shortest(100 * limit)));
  }
  return join(parts, ", ");
}

}  // namespace reciperun
