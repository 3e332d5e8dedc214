// Means and single runs.
#include <fmt/core.h>

#include <cmath>

#include "tools/recipe_run/judge/rules.h"
#include "tools/recipe_run/stats/repeats.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

using Inputs = std::vector<std::pair<std::string, double>>;

constexpr int kMostRuns = 1000;  // more are not proposed

void add_inputs(Judgement& judgement, const Inputs& inputs) {
  judgement.inputs.insert(judgement.inputs.end(), inputs.begin(), inputs.end());
}

Inputs published_inputs(const Summary& published) {
  return {{"published_mean", published.mean},
          {"published_sd", published.sd},
          {"published_n", published.n}};
}

Inputs own_inputs(const Summary& ours) {
  return {{"own_mean", ours.mean}, {"own_sd", ours.sd}, {"own_n", ours.n}};
}

// Says how many own runs would make a difference of this size significant.
std::string runs_that_decide(const Summary& published, const Summary& ours, double level) {
  for (int k = ours.n + 1; k <= kMostRuns; ++k) {
    Summary more = ours;
    more.n = k;
    if (welch(published, more).p < level) return fmt::format("about {} runs would decide", k);
  }
  return "no number of our runs can decide: the published runs are too few";
}

// Where the whole level is spent, nothing can be claimed any more.
Judgement looked_at_too_often(const MeanComparison& c, const Tolerance& t) {
  const bool outside = is_outside(c.delta, t);
  return judged(
      outside ? Verdict::kInconclusive : Verdict::kWithinTolerance,
      fmt::format("{}, but the runs were looked at too often to claim more",
                  outside ? by(c.delta, t) + ", outside the margin" : "inside the margin"));
}

Judgement reproduced(const MeanComparison& c, const Tolerance& t) {
  const bool better = c.delta * good_side(t) > t.margin;
  return judged(Verdict::kReproduced,
                better ? "better, " + by(c.delta, t)
                       : fmt::format("the difference lies inside the margin with {} % confidence",
                                     shortest(std::round(1000 * (1 - t.level)) / 10)));
}

Judgement within(const MeanComparison& c, const Interval& interval, const Tolerance& t) {
  Judgement out;
  out.verdict = Verdict::kWithinTolerance;
  const bool low = is_inside({interval.lower, interval.lower}, t);
  out.reason = interval.contains(0)
                   ? fmt::format("a true difference of {} cannot be excluded; more runs would tell",
                                 signed_fixed(low ? interval.upper : interval.lower, t.decimals))
                   : fmt::format("measurably {}, inside the margin", by(c.delta, t));
  out.more_runs_help = true;
  return out;
}

Judgement outside(const MeanComparison& c, const Tolerance& t, const std::string& undecided) {
  Judgement out;
  const bool significant = c.p < t.level;
  out.verdict = significant ? differs(c.delta, t) : Verdict::kInconclusive;
  out.reason = by(c.delta, t) + ", outside the margin" +
               (significant ? ", p " + p_text(c.p) : ", but not significantly: " + undecided);
  out.more_runs_help = !significant;
  return out;
}

// The part that all comparisons of means share; `undecided` ends the reason of INCONCLUSIVE.
Judgement judge_comparison(const MeanComparison& c, const Tolerance& t,
                           const std::string& undecided) {
  const bool may_claim = t.level > 0;
  const Interval interval = c.equivalence_interval(may_claim ? t.level : 0.05);
  Judgement out = !may_claim               ? looked_at_too_often(c, t)
                  : is_inside(interval, t) ? reproduced(c, t)
                  : is_outside(c.delta, t) ? outside(c, t, undecided)
                                           : within(c, interval, t);
  out.delta = c.delta;
  out.interval = interval;
  out.p = c.p;
  out.level = t.level;
  add_inputs(out, {{"delta", c.delta},
                   {"se", c.se},
                   {"df", c.df},
                   {"p", c.p},
                   {"margin", t.margin},
                   {"level", t.level},
                   {"interval_lower", interval.lower},
                   {"interval_upper", interval.upper}});
  return out;
}

std::string would_pass(const Prediction& prediction, const Tolerance& t) {
  if (t.margin <= 0) return "";
  return fmt::format("; a true difference of {} would pass {} % of the time", number(t.margin, t),
                     fixed(100 * false_comfort(prediction, t.margin), 0));
}

// One run of ours in or out of where the published spread lets it fall.
Judgement judge_prediction(const Prediction& prediction, double ours, const Tolerance& t) {
  const Interval usual = prediction.interval(0.95);
  const double delta = ours - prediction.mean;
  const double p = prediction.two_sided_p(ours);
  Judgement out;
  out.delta = delta;
  out.interval = Interval{usual.lower - prediction.mean, usual.upper - prediction.mean};
  out.p = p;
  out.level = t.level;
  out.more_runs_help = true;
  out.inputs = {{"published_mean", prediction.mean},
                {"prediction_se", prediction.se},
                {"prediction_df", prediction.df},
                {"own", ours},
                {"own_n", 1},
                {"p", p},
                {"margin", t.margin},
                {"prediction95_lower", usual.lower},
                {"prediction95_upper", usual.upper}};
  const std::string band = fmt::format("the 95 % prediction interval {} … {}",
                                       number(usual.lower, t), number(usual.upper, t));
  if (usual.contains(ours)) {
    out.verdict = Verdict::kConsistent;
    out.reason = "one run, inside " + band + would_pass(prediction, t);
  } else if (!is_outside(delta, t)) {
    const bool better = delta * good_side(t) > t.margin;
    out.verdict = Verdict::kWithinTolerance;  // a one-sided margin has room for all that is better
    out.reason = better ? "one run, better, " + by(delta, t)
                        : "one run, outside " + band + ", but inside the margin";
  } else {
    const bool clear = p < clear_level(t);
    out.verdict = clear ? differs(delta, t) : Verdict::kInconclusive;
    out.more_runs_help = !clear;
    out.reason = "one run, " + by(delta, t) + ", outside the margin and " + band +
                 (clear ? ", p " + p_text(p) : "; more runs would decide");
  }
  return out;
}

// Named only where it disagrees with Welch's test about significance.
void add_permutation_test(Judgement& out, std::span<const double> published,
                          std::span<const double> ours, const Tolerance& t) {
  const std::optional<double> exact = permutation_p(published, ours);
  if (!exact) return;
  add_inputs(out, {{"permutation_p", *exact}});
  if ((*exact < t.level) == (*out.p < t.level)) return;
  out.reason += fmt::format("; the exact permutation test says p {}, Welch's p {}", p_text(*exact),
                            p_text(*out.p));
}

Judgement judge_borrowed(const Published& published, const Summary& ours, const Tolerance& t) {
  const Summary& lender = *published.lender;
  Judgement out =
      ours.n == 1
          ? judge_prediction(predict_with_borrowed_sd(published.runs, lender, 1), ours.mean, t)
          : judge_comparison(with_borrowed_sd(published.runs, lender, ours), t, "run more");
  out.reason += published.lender_recipe.empty()
                    ? "; spread borrowed from a neighbouring row"
                    : "; spread borrowed from '" + published.lender_recipe + "'";
  add_inputs(out, {{"lender_sd", lender.sd}, {"lender_n", lender.n}});
  return out;
}

Judgement judge_with_own_spread(const Summary& published, const Summary& ours, const Tolerance& t) {
  Judgement out = judge_comparison(with_own_sd(published, ours), t, "run more");
  out.reason += "; our own spread stands for that of " + std::string(t.reference);
  return out;
}

// One run against a number without a spread.
Judgement judge_by_margin(const Summary& published, const Summary& ours, const Tolerance& t) {
  Judgement out;
  out.delta = ours.mean - published.mean;
  out.more_runs_help = true;
  const bool outside = is_outside(*out.delta, t);
  const bool better = *out.delta * good_side(t) > t.margin;
  out.verdict = outside ? Verdict::kInconclusive : Verdict::kWithinTolerance;
  out.reason = (outside  ? by(*out.delta, t) + ", outside the margin"
                : better ? "better, " + by(*out.delta, t)
                         : "inside the margin") +
               std::string("; ") + t.reference + " has no spread and ours is one run";
  add_inputs(out, {{"margin", t.margin}});
  return out;
}

Judgement judge_mean(const Published& published, std::span<const double> values,
                     const Tolerance& t) {
  const Summary ours = summarise(values);
  Published theirs = published;
  theirs.runs.n = std::max(1, theirs.runs.n);  // a printed number is at least one run
  Judgement out;
  if (theirs.has_spread() && ours.n == 1) return judge_single_run(theirs.runs, ours.mean, t);
  if (theirs.has_spread()) {
    out = judge_means(theirs.runs, ours, t);
    add_permutation_test(out, theirs.list, values, t);
    return out;
  }
  out = theirs.lender ? judge_borrowed(theirs, ours, t)
        : ours.n >= 2 ? judge_with_own_spread(theirs.runs, ours, t)
                      : judge_by_margin(theirs.runs, ours, t);
  add_inputs(out, published_inputs(published.runs));
  add_inputs(out, own_inputs(ours));
  return out;
}

}  // namespace

Judgement judge_means(const Summary& published, const Summary& ours, const Tolerance& t) {
  Judgement out = judge_comparison(welch(published, ours), t, "");
  if (out.verdict == Verdict::kInconclusive && t.level > 0)
    out.reason += runs_that_decide(published, ours, t.level);
  add_inputs(out, published_inputs(published));
  add_inputs(out, own_inputs(ours));
  return out;
}

Judgement judge_single_run(const Summary& published, double ours, const Tolerance& t) {
  Judgement out = judge_prediction(predict(published, 1), ours, t);
  add_inputs(out, {{"published_sd", published.sd}, {"published_n", published.n}});
  return out;
}

Judgement judge_runs(Statistic statistic, const Published& published, std::span<const double> ours,
                     const Tolerance& t) {
  switch (statistic) {
    case Statistic::kMean:
      return judge_mean(published, ours, t);
    case Statistic::kSpread:
      return judge_spread(published.runs, summarise(ours), t);
    case Statistic::kLargest:
    case Statistic::kSmallest:
      return judge_extreme(published.lender ? *published.lender : published.runs, ours,
                           statistic == Statistic::kLargest, t);
    case Statistic::kRatio:
      break;
  }
  return judged(Verdict::kNotComparable, "a ratio is not a statistic of one list of runs");
}

}  // namespace reciperun
