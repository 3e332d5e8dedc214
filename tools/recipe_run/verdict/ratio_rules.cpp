// Throughput, latency, time and speed-up: ratios of ours to the published number.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/statistics/distributions.h"
#include "tools/recipe_run/statistics/repeats.h"
#include "tools/recipe_run/verdict/wording.h"

namespace reciperun {
namespace {

// A ratio ours / published with its interval, and the same turned so that larger is better.
struct TurnedRatio {
  TurnedRatio(double ratio, Interval interval, const Tolerance& t)
      : plain(ratio),
        plain_interval(interval),
        margin(t.margin),
        one_sided(t.one_sided),
        inverted(t.lower_is_better),
        reference(t.reference) {
    value = inverted ? 1 / ratio : ratio;
    good = inverted ? Interval{1 / interval.upper, 1 / interval.lower} : interval;
    limit = inverted ? 1 / (1 + margin) : 1 - margin;
    better = inverted ? 1 / (1 - margin) : 1 + margin;
  }

  bool too_good() const { return !one_sided && good.lower > better; }
  bool too_bad() const { return good.upper < limit; }
  std::string text() const { return fixed(plain, 3) + " times " + reference; }
  // The limit as a ratio ours / published.
  double plain_limit() const { return inverted ? 1 / limit : limit; }

  Judgement judgement() const {
    Judgement out;
    out.delta = plain - 1;
    out.interval = plain_interval;
    out.interval_of_ratio = true;
    out.inputs = {{"ratio", plain},
                  {"interval_lower", plain_interval.lower},
                  {"interval_upper", plain_interval.upper},
                  {"margin", margin}};
    return out;
  }

  double plain;
  Interval plain_interval;
  double margin;
  bool one_sided;
  bool inverted;
  const char* reference;
  double value;
  Interval good;
  double limit;
  double better;
};

// `enough`: the interval covers 95 %. `p`: of "the true ratio is at the nearer limit", absent if
// nothing can be said.
Judgement judge_turned(const TurnedRatio& r, bool enough, std::optional<double> p) {
  Judgement out = r.judgement();
  const std::string times = r.text();
  if (enough && r.good.lower >= r.limit && !r.too_good()) {
    out.verdict = Verdict::kReproduced;
    out.reason = r.good.lower > r.better ? "better, " + times : times;
  } else if (r.value >= r.limit && !r.too_good()) {
    out.verdict = Verdict::kWithinTolerance;
    out.reason = times + (enough ? "; the interval reaches below the margin"
                                 : "; too few repeats for an interval");
  } else if (p && (r.too_good() || r.too_bad())) {
    out.verdict = r.too_good() ? Verdict::kDiffersBetter : Verdict::kDiffersWorse;
    out.p = p;
    out.reason = times + ", limit " + fixed(r.plain_limit(), 3);
  } else {
    out.verdict = Verdict::kInconclusive;
    out.reason = times + (p ? ", but the interval reaches into the margin"
                            : "; one measurement does not decide");
  }
  return out;
}

// From the logarithms of the ratios by Student's t. The order-statistic interval decides the
// verdict; its own sign test knows no p below 2^(1 - repeats), which no row of a long report would
// survive.
std::optional<double> ratio_p(double published, std::span<const double> repeats,
                              const Tolerance& t) {
  if (repeats.size() < 2) return std::nullopt;
  std::vector<double> logs;
  for (double x : repeats) logs.push_back(std::log(x / published));
  const Summary s = summarise(logs);
  const double distance = s.mean - std::log(s.mean > 0 ? 1 + t.margin : 1 - t.margin);
  if (s.sd == 0) return distance == 0 ? 1.0 : 0.0;
  return student_two_sided_p(distance / (s.sd / std::sqrt(static_cast<double>(s.n))), s.n - 1);
}

// The exact Mann-Whitney p of "the true ratio is at the nearer limit".
double speedup_p(double published, double ratio, std::span<const double> numerator,
                 std::span<const double> denominator, const Tolerance& t) {
  const double limit = published * (ratio > published ? 1 + t.margin : 1 - t.margin);
  std::vector<double> scaled;
  for (double d : denominator) scaled.push_back(limit * d);
  return mann_whitney_two_sided_p(numerator, scaled);
}

}  // namespace

Judgement judge_ratio(double published, std::span<const double> repeats, const Tolerance& t) {
  const MedianInterval m = median_interval(repeats);
  const TurnedRatio ratio(m.median / published,
                          {m.interval.lower / published, m.interval.upper / published}, t);
  Judgement out = judge_turned(ratio, m.coverage >= 0.95, ratio_p(published, repeats, t));
  out.inputs.insert(out.inputs.end(), {{"published", published},
                                       {"own_median", m.median},
                                       {"repeats", static_cast<double>(repeats.size())},
                                       {"coverage", m.coverage}});
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
  const RatioInterval r = ratio_interval(numerator, denominator);
  const bool enough = r.coverage >= 0.95;
  std::optional<double> p;
  if (enough) p = speedup_p(published, r.ratio, numerator, denominator, t);
  const TurnedRatio ratio(r.ratio / published,
                          {r.interval.lower / published, r.interval.upper / published}, t);
  Judgement out = judge_turned(ratio, enough, p);
  out.inputs.insert(out.inputs.end(),
                    {{"published", published}, {"own_ratio", r.ratio}, {"coverage", r.coverage}});
  return out;
}

Judgement judge_projection(double published, double projected, Interval interval,
                           const Tolerance& t) {
  const TurnedRatio r(projected / published,
                      {interval.lower / published, interval.upper / published}, t);
  Judgement out = r.judgement();
  out.inputs.insert(out.inputs.end(), {{"published", published}, {"projected", projected}});
  out.reason = "projected from steps, batch and measured throughput: " + r.text();
  if (r.too_good() || r.too_bad()) {
    out.verdict = r.too_good() ? Verdict::kDiffersBetter : Verdict::kDiffersWorse;
    out.reason += ", limit " + fixed(r.plain_limit(), 3);
  } else if (r.value >= r.limit) {
    out.verdict = Verdict::kWithinTolerance;
  } else {
    out.verdict = Verdict::kInconclusive;
    out.reason += ", but the interval reaches into the margin";
  }
  return out;
}

}  // namespace reciperun
