#include "tools/recipe_run/verdict/rules.h"

#include <algorithm>
#include <cmath>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/statistics/distributions.h"
#include "tools/recipe_run/statistics/repeats.h"

namespace reciperun {
namespace {

constexpr double kSignificant = 0.05;

// +1 if larger is better, -1 if smaller is, 0 if neither.
int good_side(const Tolerance& t) { return t.higher_is_better ? 1 : t.lower_is_better ? -1 : 0; }

bool is_outside(double delta, const Tolerance& t) {
  const bool better = delta * good_side(t) > 0;
  return std::abs(delta) > t.margin && !(t.one_sided && better);
}

Verdict differs(double delta, const Tolerance& t) {
  return delta * good_side(t) > 0 ? Verdict::kDiffersBetter : Verdict::kDiffersWorse;
}

std::string number(double x, const Tolerance& t) { return fixed(x, t.decimals); }

// "lower by 0.20" / "higher by 0.20".
std::string by(double delta, const Tolerance& t) {
  return std::string(delta < 0 ? "lower by " : "higher by ") + number(std::abs(delta), t);
}

std::string significant_p(double p) { return p < 0.0001 ? "< 0.0001" : fixed(p, 4); }

// Smallest number of own runs at which a difference of this size would be significant; 0 if none
// is.
int runs_that_decide(const Summary& published, const Summary& ours, double delta) {
  for (int k = ours.n + 1; k <= 1000; ++k) {
    Summary more = ours;
    more.n = k;
    more.mean = published.mean + delta;
    if (welch(published, more).p < kSignificant) return k;
  }
  return 0;
}

std::string more_runs(int k) {
  return k == 0 ? "no number of own runs decides: the published runs are too few"
                : "about " + std::to_string(k) + " runs would decide";
}

// The part that all comparisons of means share; `undecided` ends the reason of INCONCLUSIVE.
Judgement judge_comparison(const MeanComparison& c, const Tolerance& t,
                           const std::string& undecided) {
  Judgement out;
  out.delta = c.delta;
  out.interval = c.interval90;
  out.inputs = {{"delta", c.delta},
                {"se", c.se},
                {"df", c.df},
                {"p", c.p},
                {"margin", t.margin},
                {"interval90_lower", c.interval90.lower},
                {"interval90_upper", c.interval90.upper}};
  const int side = good_side(t);
  const bool lower_ok = -t.margin < c.interval90.lower || (t.one_sided && side < 0);
  const bool upper_ok = c.interval90.upper < t.margin || (t.one_sided && side > 0);
  if (lower_ok && upper_ok) {
    out.verdict = Verdict::kReproduced;
    const bool better = c.delta * side > 0 && std::abs(c.delta) > t.margin;
    out.reason = better ? "better, " + by(c.delta, t)
                        : "the difference lies inside the margin with 95 % confidence";
    return out;
  }
  if (!is_outside(c.delta, t)) {
    out.verdict = Verdict::kWithinTolerance;
    const double worst = !lower_ok ? c.interval90.lower : c.interval90.upper;
    out.reason = !c.interval90.contains(0)
                     ? "measurably " + by(c.delta, t) + ", inside the margin"
                     : "a true difference of " + signed_fixed(worst, t.decimals) +
                           " cannot be excluded; more runs would tell";
    return out;
  }
  out.p = c.p;
  const bool significant = c.p < kSignificant;
  out.verdict = significant ? differs(c.delta, t) : Verdict::kInconclusive;
  out.reason =
      by(c.delta, t) + ", outside the margin" +
      (significant ? ", p " + significant_p(c.p) : ", but not significantly: " + undecided);
  return out;
}

}  // namespace

Judgement judge_means(const Summary& published, const Summary& ours, const Tolerance& tolerance) {
  const MeanComparison c = welch(published, ours);
  Judgement out = judge_comparison(c, tolerance, "");
  if (out.verdict == Verdict::kInconclusive)
    out.reason += more_runs(runs_that_decide(published, ours, c.delta));
  out.inputs.insert(out.inputs.end(), {{"published_mean", published.mean},
                                       {"published_sd", published.sd},
                                       {"published_n", published.n},
                                       {"own_mean", ours.mean},
                                       {"own_sd", ours.sd},
                                       {"own_n", ours.n}});
  return out;
}

Judgement judge_single_run(const Summary& published, double ours, const Tolerance& t) {
  const Interval usual = prediction_interval(published, 1, 0.95);
  const Interval possible = prediction_interval(published, 1, 0.99);
  Judgement out;
  out.delta = ours - published.mean;
  out.interval = Interval{usual.lower - published.mean, usual.upper - published.mean};
  out.inputs = {{"published_mean", published.mean},
                {"published_sd", published.sd},
                {"published_n", published.n},
                {"own", ours},
                {"own_n", 1},
                {"margin", t.margin},
                {"prediction95_lower", usual.lower},
                {"prediction95_upper", usual.upper},
                {"prediction99_lower", possible.lower},
                {"prediction99_upper", possible.upper}};
  const std::string band = number(usual.lower, t) + " … " + number(usual.upper, t);
  if (usual.contains(ours)) {
    out.verdict = Verdict::kWithinTolerance;
    out.reason = "one run, inside the 95 % prediction interval " + band;
    return out;
  }
  const double t_value = *out.delta / (published.sd * std::sqrt(1 + 1.0 / published.n));
  out.p = student_two_sided_p(t_value, published.n - 1);
  const bool clear = !possible.contains(ours) && is_outside(*out.delta, t);
  out.verdict = clear ? differs(*out.delta, t) : Verdict::kInconclusive;
  out.reason = "one run, outside the 95 % prediction interval " + band +
               (clear ? ", and outside the 99 % one" : "; more runs would decide");
  return out;
}

Judgement judge_borrowed(const Summary& published, const Summary& lender, const Summary& ours,
                         const Tolerance& t) {
  const MeanComparison c = with_borrowed_sd(published, lender, ours);
  Judgement out = judge_comparison(c, t, "run more");
  out.reason += "; spread borrowed from a neighbouring row";
  out.inputs.insert(out.inputs.end(), {{"published_mean", published.mean},
                                       {"published_n", published.n},
                                       {"lender_sd", lender.sd},
                                       {"lender_n", lender.n},
                                       {"own_mean", ours.mean},
                                       {"own_sd", ours.sd},
                                       {"own_n", ours.n}});
  if (out.verdict == Verdict::kReproduced && published.n == 1 && ours.n == 1) {
    out.verdict = Verdict::kWithinTolerance;  // a single run never shows equivalence
    out.reason = "one run against one; spread borrowed from a neighbouring row";
  }
  return out;
}

Judgement judge_known_n(const Summary& published, const Summary& ours, const Tolerance& t) {
  Judgement out = judge_comparison(with_own_sd(published, ours), t, "run more");
  out.reason += "; our own spread stands for the published one";
  out.inputs.insert(out.inputs.end(), {{"published_mean", published.mean},
                                       {"published_n", published.n},
                                       {"own_mean", ours.mean},
                                       {"own_sd", ours.sd},
                                       {"own_n", ours.n}});
  return out;
}

Judgement judge_margin_only(double published, const Summary& ours, const Tolerance& t) {
  Judgement out;
  out.delta = ours.mean - published;
  out.inputs = {{"published", published},
                {"own_mean", ours.mean},
                {"own_sd", ours.sd},
                {"own_n", ours.n},
                {"margin", t.margin}};
  const std::string alone = "the published value has no spread";
  if (ours.n >= 2) {
    // As if the published number were one run of a system with our spread.
    const MeanComparison c = with_own_sd({published, 0, 1, 0}, ours);
    out.interval = c.interval90;
    out.p = c.p;
  }
  if (!is_outside(*out.delta, t)) {
    const bool better = *out.delta * good_side(t) > t.margin;
    out.verdict = Verdict::kWithinTolerance;
    out.reason = (better ? "better, " + by(*out.delta, t) : "inside the margin") +
                 "; equivalence cannot be shown, " + alone;
    out.p.reset();
    return out;
  }
  const bool significant = out.p && *out.p < kSignificant;
  out.verdict = significant ? differs(*out.delta, t) : Verdict::kInconclusive;
  out.reason =
      by(*out.delta, t) + ", outside the margin" +
      (significant
           ? ", p " + significant_p(*out.p) + " if the published value is one run with our spread"
           : "; " + alone + (ours.n < 2 ? " and ours is one run" : " and ours does not decide"));
  return out;
}

Judgement judge_extreme(const Summary& published, std::span<const double> ours, bool maximum,
                        const Tolerance& t) {
  const double value = maximum ? *std::max_element(ours.begin(), ours.end())
                               : *std::min_element(ours.begin(), ours.end());
  const int k = static_cast<int>(ours.size());
  const Interval usual = extreme_interval(published, k, maximum, 0.95);
  Judgement out;
  out.interval = usual;
  out.inputs = {{"published_mean", published.mean},
                {"published_sd", published.sd},
                {"published_n", published.n},
                {"own_extreme", value},
                {"own_n", k},
                {"prediction95_lower", usual.lower},
                {"prediction95_upper", usual.upper}};
  const std::string what = std::string(maximum ? "largest" : "smallest") + " of " +
                           std::to_string(k) + " expected in " + number(usual.lower, t) + " … " +
                           number(usual.upper, t);
  if (usual.contains(value)) {
    out.verdict = Verdict::kWithinTolerance;
    out.reason = what;
    return out;
  }
  const Interval possible = extreme_interval(published, k, maximum, 0.99);
  const double off = value - (value < usual.lower ? usual.lower : usual.upper);
  out.verdict = possible.contains(value) ? Verdict::kInconclusive : differs(off, t);
  if (!possible.contains(value)) out.p = 0.01;
  out.reason = what + "; outside it";
  return out;
}

Judgement judge_spread(const Summary& published, const Summary& ours) {
  Judgement out;
  if (!(published.sd > 0) || !(ours.sd > 0) || ours.n < 2 || published.n < 2) {
    out.verdict = Verdict::kInconclusive;
    out.reason = "a spread needs at least two different runs on both sides";
    return out;
  }
  const SdRatio ratio = sd_ratio(published, ours);
  out.interval = ratio.interval95;
  out.interval_of_ratio = true;
  out.inputs = {{"published_sd", published.sd},
                {"published_n", published.n},
                {"own_sd", ours.sd},
                {"own_n", ours.n},
                {"ratio", ratio.ratio},
                {"interval95_lower", ratio.interval95.lower},
                {"interval95_upper", ratio.interval95.upper}};
  const Interval usual = unremarkable_sd_ratio(published.n, ours.n);
  out.reason = fixed(ratio.ratio, 2) + " times the published spread; " + fixed(usual.lower, 2) +
               " … " + fixed(usual.upper, 2) + " is unremarkable";
  out.verdict = Verdict::kWithinTolerance;
  if (!ratio.interval95.contains(1)) {
    out.verdict = ratio.ratio > 1 ? Verdict::kDiffersWorse : Verdict::kDiffersBetter;
    out.p = fisher_two_sided_p(ratio.ratio * ratio.ratio, ours.n - 1, published.n - 1);
  }
  return out;
}

namespace {

// From a ratio ours / published and its interval, turned so that larger is better. `enough`: the
// interval covers 95 %.
Judgement judge_turned_ratio(double ratio, Interval interval, bool enough, std::optional<double> p,
                             const Tolerance& t) {
  const bool invert = t.lower_is_better;
  const double r = invert ? 1 / ratio : ratio;
  const Interval i = invert ? Interval{1 / interval.upper, 1 / interval.lower} : interval;
  Judgement out;
  out.delta = ratio - 1;
  out.interval = interval;
  out.interval_of_ratio = true;
  out.inputs = {{"ratio", ratio},
                {"interval_lower", interval.lower},
                {"interval_upper", interval.upper},
                {"margin", t.margin}};
  const double limit = invert ? 1 / (1 + t.margin) : 1 - t.margin;
  const double better = invert ? 1 / (1 - t.margin) : 1 + t.margin;
  const std::string times = fixed(ratio, 3) + " times the published value";
  const bool too_good = !t.one_sided && i.lower > better;
  if (enough && i.lower >= limit && !too_good) {
    out.verdict = Verdict::kReproduced;
    out.reason = i.lower > better ? "better, " + times : times;
  } else if (r >= limit && !too_good) {
    out.verdict = Verdict::kWithinTolerance;
    out.reason = times + (enough ? "; the interval reaches below the margin"
                                 : "; too few repeats for an interval");
  } else if (p && (too_good || i.upper < limit)) {
    out.verdict = too_good ? Verdict::kDiffersBetter : Verdict::kDiffersWorse;
    out.p = p;
    out.reason = times + ", limit " + fixed(invert ? 1 / limit : limit, 3);
  } else {
    out.verdict = Verdict::kInconclusive;
    out.reason = times + (p ? ", but the interval reaches into the margin"
                            : "; one measurement does not decide");
  }
  return out;
}

// p of "the true ratio is at the nearer limit of the margin", from the logarithms of the ratios.
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

}  // namespace

Judgement judge_ratio(double published, std::span<const double> repeats, const Tolerance& t) {
  const MedianInterval m = median_interval(repeats);
  Judgement out = judge_turned_ratio(m.median / published,
                                     {m.interval.lower / published, m.interval.upper / published},
                                     m.coverage >= 0.95, ratio_p(published, repeats, t), t);
  out.inputs.insert(out.inputs.end(), {{"published", published},
                                       {"own_median", m.median},
                                       {"repeats", static_cast<double>(repeats.size())},
                                       {"coverage", m.coverage}});
  if (published > *std::max_element(repeats.begin(), repeats.end()) &&
      out.verdict == Verdict::kReproduced) {
    out.reason += "; the published value is above all repeats";
  } else if (published < *std::min_element(repeats.begin(), repeats.end()) &&
             out.verdict == Verdict::kReproduced) {
    out.reason += "; the published value is below all repeats";
  }
  return out;
}

Judgement judge_speedup(double published, std::span<const double> numerator,
                        std::span<const double> denominator, const Tolerance& t) {
  const RatioInterval r = ratio_interval(numerator, denominator);
  std::optional<double> p;
  if (r.coverage >= 0.95) p = 1 - r.coverage;
  Judgement out = judge_turned_ratio(r.ratio / published,
                                     {r.interval.lower / published, r.interval.upper / published},
                                     r.coverage >= 0.95, p, t);
  out.inputs.insert(out.inputs.end(),
                    {{"published", published}, {"own_ratio", r.ratio}, {"coverage", r.coverage}});
  return out;
}

void correct_for_many_rows(std::span<Judgement* const> rows) {
  std::vector<Judgement*> candidates;
  std::vector<double> p;
  for (Judgement* row : rows) {
    const bool differs =
        row->verdict == Verdict::kDiffersWorse || row->verdict == Verdict::kDiffersBetter;
    if (!differs || !row->p) continue;
    candidates.push_back(row);
    p.push_back(*row->p);
  }
  const std::vector<double> adjusted = holm_adjusted(p);
  for (size_t i = 0; i < candidates.size(); ++i) {
    candidates[i]->inputs.emplace_back("holm_p", adjusted[i]);
    if (adjusted[i] <= kSignificant) continue;
    candidates[i]->verdict = Verdict::kInconclusive;
    candidates[i]->reason += "; not significant among " + std::to_string(candidates.size()) +
                             " such rows (Holm p " + fixed(adjusted[i], 3) + ")";
  }
}

}  // namespace reciperun
