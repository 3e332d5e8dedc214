// Rows over trials: accuracy, loss, their extremes and their spread over seeds.
#include <algorithm>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/verdict/row_kinds.h"

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
  return it != trial.metrics.end() && c.published.value && !c.expect.has_spread() &&
         c.expect.direction() == v1::Expect::HIGHER &&
         it->second * c.factor < *c.published.value / 2;
}

size_t count_failed(const RowContext& c) {
  const auto& trials = c.measurements.trials;
  return static_cast<size_t>(
      std::count_if(trials.begin(), trials.end(), [&](const Trial& t) { return failed(c, t); }));
}

std::vector<double> values_of(const RowContext& c, const std::string& metric) {
  std::vector<double> values;
  for (const Trial& trial : c.measurements.trials) {
    if (failed(c, trial)) continue;
    if (const auto it = trial.metrics.find(metric); it != trial.metrics.end())
      values.push_back(it->second * c.factor);
  }
  return values;
}

bool wants_spread(const RowContext& c) {
  return c.expect.has_spread() || split_metric(c.expect.metric()).statistic == "sd";
}

std::string measured_text(const RowContext& c, const std::vector<double>& values) {
  const Summary s = summarise(values);
  const std::string statistic = split_metric(c.expect.metric()).statistic;
  const int digits = c.decimals();
  if (wants_spread(c)) return s.n >= 2 ? fixed(s.sd, digits + 1) : "";
  if (statistic == "max" ||
      (c.expect.has_extreme() && c.expect.extreme().which() == v1::Extreme::MAX))
    return fixed(*std::max_element(values.begin(), values.end()), digits);
  if (statistic == "min" || c.expect.has_extreme())
    return fixed(*std::min_element(values.begin(), values.end()), digits);
  return fixed(s.mean, digits) + (s.n >= 2 ? " ± " + fixed(s.sd, digits) : "");
}

std::string too_few_devices(const RowContext& c) {
  const uint32_t needed = devices_of(c.recipe, c.expect);
  if (!c.published.value || needed == c.measurements.devices) return "";
  if (!c.measurements.not_comparable.empty()) return "";  // which says more
  return "needs " + std::to_string(needed) + (needed == 1 ? " device" : " devices") +
         ", trained on " + std::to_string(c.measurements.devices) +
         (needed > 1 ? "; --emulate-devices " + std::to_string(needed) + " makes it comparable"
                     : "");
}

// Rows with a list are judged with it, others by their moments.
Judgement compare_with_spread(const RowContext& c, const Measured& m, const Summary& ours) {
  if (ours.n < 2) return judge_single_run(c.published.summary, ours.mean, c.tolerance);
  if (!c.expect.has_sample()) return judge_means(c.published.summary, ours, c.tolerance);
  const auto& list = c.expect.sample().v();
  return judge_lists(std::vector<double>(list.begin(), list.end()), m.values, c.tolerance);
}

}  // namespace

Measured measure_trials(const RowContext& c, Row& row) {
  Measured out;
  const std::string metric = split_metric(c.expect.metric()).base;
  out.values = values_of(c, metric);
  const size_t trials = c.measurements.trials.size();
  if (const size_t lost = count_failed(c); lost > 0) {
    row.note = std::to_string(lost) + " of " + std::to_string(trials) + " trials failed";
  }
  if (out.values.empty()) {
    out.missing = trials == 0 ? "no trial finished" : "no trial measured '" + metric + "'";
    return out;
  }
  row.values = out.values;
  row.measured_n = std::to_string(out.values.size());
  row.measured = measured_text(c, out.values);
  out.missing = too_few_devices(c);
  if (row.measured.empty()) out.missing = "one trial has no spread";
  return out;
}

std::optional<Judgement> judge_divergence(const RowContext& c) {
  const Measurements& m = c.measurements;
  if (!c.published.value || !m.not_comparable.empty() || !too_few_devices(c).empty())
    return std::nullopt;
  const size_t lost = count_failed(c);
  const std::string count =
      std::to_string(lost) + " of " + std::to_string(m.trials.size()) + " trials diverged";
  Judgement out;
  if (lost >= 2) {
    out.verdict = Verdict::kDiffersWorse;
    out.reason = "unstable: " + count;
    return out;
  }
  if (lost == 1 && m.trials.size() < kEnoughToDropOne) {
    out.verdict = Verdict::kInconclusive;
    out.reason = count + ", too many to leave out; run more seeds";
    out.more_runs_help = true;
    return out;
  }
  return std::nullopt;
}

Judgement compare_trials(const RowContext& c, const Measured& m) {
  const auto lender_of = [&](const std::string& id) {
    const Published row = published_side(*find_expectation(c.recipe, id));
    return row.has_spread || !row.lender ? row.summary : *row.lender;
  };
  if (c.expect.has_extreme()) {
    return judge_extreme(lender_of(c.expect.extreme().of()), m.values,
                         c.expect.extreme().which() == v1::Extreme::MAX, c.tolerance);
  }
  const Summary ours = summarise(m.values);
  if (c.expect.has_spread()) return judge_spread(c.published.summary, ours, c.tolerance);
  if (c.published.has_spread) return compare_with_spread(c, m, ours);
  if (!c.expect.spread_from().empty() || c.published.lender) {
    Summary published = c.published.summary;
    published.n = std::max(1, published.n);
    const Summary lender =
        c.published.lender ? *c.published.lender : lender_of(c.expect.spread_from());
    return judge_borrowed(published, lender, ours, c.tolerance);
  }
  if (c.published.summary.n >= 2 && ours.n >= 2)
    return judge_known_n(c.published.summary, ours, c.tolerance);
  return judge_margin_only(*c.published.value, ours, c.tolerance);
}

}  // namespace reciperun
