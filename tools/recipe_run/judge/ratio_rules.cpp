// Throughput, latency, time and speed-up: ratios of ours to the published number. The difference
// that is held against the margin is ratio - 1.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "tools/recipe_run/judge/rules.h"
#include "tools/recipe_run/stats/repeats.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

constexpr double kCoverage = 0.95;  // of the intervals

// ours / published.
struct RatioEstimate {
  double ratio = 1;
  std::optional<Interval> interval;  // 95 %; absent after a single measurement
  // Of the logarithm of the ratio, for p.
  MeanComparison log;
};

std::vector<double> logs_of(std::span<const double> values) {
  std::vector<double> logs;
  for (const double x : values) logs.push_back(std::log(x));
  return logs;
}

Interval scaled(const Interval& i, double factor) { return {i.lower * factor, i.upper * factor}; }

// `logs`: the difference of the logarithms, before the published value is taken off. `interval`:
// where so many values can show one, else Student's of the logarithms stands in.
RatioEstimate estimate(double published, double ratio, const MeanComparison& logs,
                       const Interval& interval, double coverage) {
  RatioEstimate out{ratio / published, std::nullopt, {}};
  out.log = mean_with_se(logs.delta - std::log(published), logs.se, logs.df);
  out.interval = coverage >= kCoverage ? scaled(interval, 1 / published)
                                       : Interval{std::exp(out.log.interval95.lower),
                                                  std::exp(out.log.interval95.upper)};
  return out;
}

RatioEstimate ratio_of_repeats(double published, std::span<const double> repeats) {
  const MedianInterval m = median_interval(repeats);
  if (repeats.size() < 2) return {m.median / published, std::nullopt, {}};
  const Summary logs = summarise(logs_of(repeats));
  const double se = logs.sd / std::sqrt(static_cast<double>(logs.n));
  return estimate(published, m.median, {.delta = logs.mean, .se = se, .df = logs.n - 1.0},
                  m.interval, m.coverage);
}

RatioEstimate ratio_of_sets(double published, std::span<const double> numerator,
                            std::span<const double> denominator) {
  const RatioInterval r = ratio_interval(numerator, denominator);
  if (numerator.size() < 2 || denominator.size() < 2)
    return {r.ratio / published, std::nullopt, {}};
  return estimate(published, r.ratio,
                  welch(summarise(logs_of(denominator)), summarise(logs_of(numerator))), r.interval,
                  r.coverage);
}

// Twice the one-sided p of "the true ratio lies inside the margin", on the side where it looks most
// unlikely. By Student's t of the logarithms: a sign test of the order statistics knows no p below
// 2^(1 - repeats), which no row of a long report would survive.
double p_of_inside(const RatioEstimate& r, const Tolerance& t) {
  double p = 1;
  if (may_fall_short(t) && t.margin < 1) p = std::min(p, r.log.p_at_least(std::log(1 - t.margin)));
  if (may_exceed(t)) p = std::min(p, 1 - r.log.p_at_least(std::log(1 + t.margin)));
  return std::min(1.0, 2 * p);
}

std::string limit_text(double delta, const Tolerance& t) {
  return ", limit " + fixed(delta < 0 ? 1 - t.margin : 1 + t.margin, 3);
}

void add_numbers(Judgement& out, double ratio, const std::optional<Interval>& interval,
                 const Tolerance& t) {
  out.delta = ratio - 1;
  out.interval = interval.value_or(Interval{ratio, ratio});
  out.interval_of_ratio = true;
  out.inputs = {{"ratio", ratio},
                {"interval_lower", out.interval->lower},
                {"interval_upper", out.interval->upper},
                {"margin", t.margin}};
}

Judgement judge_estimate(const RatioEstimate& r, const Tolerance& t) {
  Judgement out;
  add_numbers(out, r.ratio, r.interval, t);
  const double delta = r.ratio - 1;
  const std::string times = fixed(r.ratio, 3) + " times " + t.reference;
  const bool outside = is_outside(delta, t);
  if (!r.interval) {
    out.verdict = outside ? Verdict::kInconclusive : Verdict::kWithinTolerance;
    out.reason = times + "; one measurement has no interval";
    return out;
  }
  const Interval difference{r.interval->lower - 1, r.interval->upper - 1};
  out.p = p_of_inside(r, t);
  if (is_inside(difference, t)) {
    const bool better = delta * good_side(t) > t.margin;
    out.verdict = Verdict::kReproduced;
    out.reason = (better ? "better, " : "") + times;
  } else if (is_outside(difference, t)) {
    out.verdict = differs(delta, t);
    out.reason = times + limit_text(delta, t);
  } else {
    out.verdict = outside ? Verdict::kInconclusive : Verdict::kWithinTolerance;
    out.reason = times + (outside ? ", but the interval reaches into the margin"
                                  : "; the interval reaches out of the margin");
  }
  return out;
}

}  // namespace

Judgement judge_ratio(double published, std::span<const double> repeats, const Tolerance& t) {
  Judgement out = judge_estimate(ratio_of_repeats(published, repeats), t);
  out.inputs.insert(out.inputs.end(), {{"published", published},
                                       {"own_median", median(repeats)},
                                       {"repeats", static_cast<double>(repeats.size())}});
  if (out.verdict != Verdict::kReproduced) return out;
  if (published > *std::max_element(repeats.begin(), repeats.end())) {
    out.reason += "; the published value is above all repeats";
  } else if (published < *std::min_element(repeats.begin(), repeats.end())) {
    out.reason += "; the published value is below all repeats";
  }
  return out;
}

Judgement judge_speedup(double published, std::span<const double> numerator,
                        std::span<const double> denominator, const Tolerance& t) {
  const RatioEstimate r = ratio_of_sets(published, numerator, denominator);
  Judgement out = judge_estimate(r, t);
  out.inputs.insert(out.inputs.end(),
                    {{"published", published}, {"own_ratio", r.ratio * published}});
  return out;
}

Judgement judge_projection(double published, double projected, Interval interval,
                           const Tolerance& t) {
  Judgement out;
  const double ratio = projected / published;
  add_numbers(out, ratio, scaled(interval, 1 / published), t);
  out.inputs.insert(out.inputs.end(), {{"published", published}, {"projected", projected}});
  out.reason = fmt::format("projected from steps, batch and measured throughput: {} times {}",
                           fixed(ratio, 3), t.reference);
  if (is_outside({out.interval->lower - 1, out.interval->upper - 1}, t)) {
    out.verdict = differs(ratio - 1, t);
    out.reason += limit_text(ratio - 1, t);
  } else if (is_outside(ratio - 1, t)) {
    out.verdict = Verdict::kInconclusive;
    out.reason += ", but the interval reaches into the margin";
  } else {
    out.verdict = Verdict::kWithinTolerance;
  }
  return out;
}

}  // namespace reciperun
