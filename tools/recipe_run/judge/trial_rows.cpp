// Rows over trials: accuracy, loss, their extremes and their spread over seeds.
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "tools/recipe_run/judge/row_kinds.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

// With fewer trials than this, one that diverged is too large a part to be left out.
constexpr size_t kEnoughToDropOne = 5;

// A trial counts as failed if it gave no result, or, where it can be compared, one below half the
// published value.
bool failed(const RowContext& c, const Trial& trial) {
  if (!trial.failure.empty()) return true;
  if (!c.measurements.not_comparable.empty()) return false;
  const auto it = trial.metrics.find(split_metric(c.expect.metric()).base);
  return it != trial.metrics.end() && c.published && !c.expect.has_spread() &&
         c.expect.direction() == v1::Expect::HIGHER && it->second * c.factor < *c.published / 2;
}

size_t count_failed(const RowContext& c) {
  const auto& trials = c.measurements.trials;
  return static_cast<size_t>(
      std::count_if(trials.begin(), trials.end(), [&](const Trial& t) { return failed(c, t); }));
}

// One value per seed. Folds are fixed parts of the data, the same in every comparison: their
// differences are no chance, so a seed's folds are averaged, and a seed that lacks one is left out.
std::vector<double> values_per_seed(const RowContext& c, const std::string& metric) {
  const uint32_t parts = trials_per_seed(c.recipe);
  std::map<uint64_t, std::vector<double>> by_seed;
  for (const Trial& trial : c.measurements.trials) {
    const auto it = trial.metrics.find(metric);
    if (it == trial.metrics.end() || failed(c, trial)) continue;
    const uint64_t seed = parts == 1 ? trial.seed : trial_part(c.recipe, trial.seed).seed;
    by_seed[seed].push_back(it->second * c.factor);
  }
  std::vector<double> values;
  for (const auto& [seed, found] : by_seed) {
    if (parts == 1) {
      values.insert(values.end(), found.begin(), found.end());
    } else if (found.size() == parts) {
      values.push_back(summarise(found).mean);
    }
  }
  return values;
}

std::string measured_text(const RowContext& c, const std::vector<double>& values) {
  const Summary s = summarise(values);
  const int digits = c.decimals();
  switch (statistic_of(c.expect)) {
    case Statistic::kSpread:
      return s.n >= 2 ? fixed(s.sd, digits + 1) : "";
    case Statistic::kLargest:
      return fixed(*std::max_element(values.begin(), values.end()), digits);
    case Statistic::kSmallest:
      return fixed(*std::min_element(values.begin(), values.end()), digits);
    default:
      return fixed(s.mean, digits) + (s.n >= 2 ? " ± " + fixed(s.sd, digits) : "");
  }
}

std::string nothing_measured(const RowContext& c, const std::string& metric) {
  const auto& trials = c.measurements.trials;
  const auto measured = std::count_if(trials.begin(), trials.end(),
                                      [&](const Trial& t) { return t.metrics.count(metric) > 0; });
  if (c.recipe.trials().count() == 0) return "this recipe trains nothing to the end";
  if (trials.empty()) return "no trial finished";
  if (measured == 0) return "no trial measured '" + metric + "'";
  return fmt::format("no seed has finished all its {} folds", trials_per_seed(c.recipe));
}

}  // namespace

std::string other_devices(const RowContext& c) {
  const uint32_t needed = devices_of(c.recipe, c.expect);
  if (!c.published || needed == c.measurements.devices) return "";
  if (!c.measurements.not_comparable.empty()) return "";  // which says more
  return fmt::format("needs {}, trains on {}{}", device_count(needed),
                     device_count(c.measurements.devices),
                     needed > 1 ? fmt::format("; --emulate-devices {} would do", needed) : "");
}

Measured measure_trials(const RowContext& c) {
  Measured out;
  const std::string metric = split_metric(c.expect.metric()).base;
  out.values = values_per_seed(c, metric);
  if (const size_t lost = count_failed(c); lost > 0)
    out.note = fmt::format("{} of {} trials failed", lost, c.measurements.trials.size());
  if (out.values.empty()) {
    out.missing = nothing_measured(c, metric);
    return out;
  }
  const uint32_t parts = trials_per_seed(c.recipe);
  out.count =
      fmt::format("{}{}", out.values.size(), parts > 1 ? fmt::format(" × {} folds", parts) : "");
  out.text = measured_text(c, out.values);
  out.missing = other_devices(c);
  if (out.text.empty()) out.missing = "one run has no spread";
  return out;
}

std::optional<Judgement> judge_divergence(const RowContext& c) {
  const Measurements& m = c.measurements;
  if (!c.published || !m.not_comparable.empty() || !other_devices(c).empty()) return std::nullopt;
  const size_t lost = count_failed(c);
  const std::string count = fmt::format("{} of {} trials diverged", lost, m.trials.size());
  if (lost >= 2) return judged(Verdict::kDiffersWorse, "unstable: " + count);
  if (lost == 0 || m.trials.size() >= kEnoughToDropOne) return std::nullopt;
  Judgement out = judged(Verdict::kInconclusive, count + ", too many to leave out; run more seeds");
  out.more_runs_help = true;
  return out;
}

}  // namespace reciperun
