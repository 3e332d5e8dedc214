// Means and single runs.
#include <cmath>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/statistics/permutation.h"
#include "tools/recipe_run/verdict/wording.h"

namespace reciperun {
namespace {

using Inputs = std::vector<std::pair<std::string, double>>;

constexpr int kMostRuns = 1000;  // more are not proposed

void add_inputs(Judgement& judgement, const Inputs& inputs) {
  judgement.inputs.insert(judgement.inputs.end(), inputs.begin(), inputs.end());
}

Inputs own_inputs(const Summary& ours) {
  return {{"own_mean", ours.mean}, {"own_sd", ours.sd}, {"own_n", ours.n}};
}

// Smallest number of own runs at which a difference of this size would be significant; 0 if none
// is.
int runs_that_decide(const Summary& published, const Summary& ours, double delta) {
  for (int k = ours.n + 1; k <= kMostRuns; ++k) {
    Summary more = ours;
    more.n = k;
    more.mean = published.mean + delta;
    if (welch(published, more).p < kSignificant) return k;
  }
  return 0;
}

std::string more_runs(int k) {
  return k == 0 ? "no number of our runs can decide: the published runs are too few"
                : "about " + std::to_string(k) + " runs would decide";
}

std::string confidence_text(double level) {
  return shortest(std::round(1000 * (1 - level)) / 10) + " % confidence";
}

Judgement reproduced(const MeanComparison& c, const Tolerance& t) {
  Judgement out;
  out.verdict = Verdict::kReproduced;
  const bool better = c.delta * good_side(t) > 0 && std::abs(c.delta) > t.margin;
  out.reason = better ? "better, " + by(c.delta, t)
                      : "the difference lies inside the margin with " + confidence_text(t.level);
  return out;
}

Judgement within(const MeanComparison& c, const Interval& interval, bool lower_ok,
                 const Tolerance& t) {
  Judgement out;
  out.verdict = Verdict::kWithinTolerance;
  const double worst = lower_ok ? interval.upper : interval.lower;
  out.reason = interval.contains(0) ? "a true difference of " + signed_fixed(worst, t.decimals) +
                                          " cannot be excluded; more runs would tell"
                                    : "measurably " + by(c.delta, t) + ", inside the margin";
  out.more_runs_help = true;
  return out;
}

Judgement outside(const MeanComparison& c, const Tolerance& t, const std::string& undecided) {
  Judgement out;
  out.p = c.p;
  const bool significant = c.p < kSignificant;
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
  const Interval interval = may_claim ? c.equivalence_interval(t.level) : c.interval90;
  const int side = good_side(t);
  const bool lower_ok = -t.margin < interval.lower || (t.one_sided && side < 0);
  const bool upper_ok = interval.upper < t.margin || (t.one_sided && side > 0);
  const bool equivalent = lower_ok && upper_ok;
  Judgement out = equivalent && may_claim  ? reproduced(c, t)
                  : is_outside(c.delta, t) ? outside(c, t, undecided)
                                           : within(c, interval, lower_ok, t);
  if (equivalent && !may_claim) {
    out.reason = "inside the margin, but the runs were looked at too often to claim equivalence";
    out.more_runs_help = false;
  }
  out.delta = c.delta;
  out.interval = interval;
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

// One run of ours in or out of where the published spread lets it fall.
Judgement judge_prediction(const Prediction& prediction, double ours, const Tolerance& t) {
  const Interval usual = prediction.interval(0.95);
  const Interval possible = prediction.interval(0.99);
  const double delta = ours - prediction.mean;
  Judgement out;
  out.delta = delta;
  out.interval = Interval{usual.lower - prediction.mean, usual.upper - prediction.mean};
  out.more_runs_help = true;
  out.inputs = {{"published_mean", prediction.mean},
                {"prediction_se", prediction.se},
                {"prediction_df", prediction.df},
                {"own", ours},
                {"own_n", 1},
                {"margin", t.margin},
                {"prediction95_lower", usual.lower},
                {"prediction95_upper", usual.upper},
                {"prediction99_lower", possible.lower},
                {"prediction99_upper", possible.upper}};
  const std::string band = number(usual.lower, t) + " … " + number(usual.upper, t);
  const bool only_better = t.one_sided && delta * good_side(t) > 0;
  if (usual.contains(ours) || only_better) {
    out.verdict = Verdict::kWithinTolerance;
    out.reason = usual.contains(ours) ? "one run, inside the 95 % prediction interval " + band
                                      : "one run, better, " + by(delta, t);
    if (t.margin > 0)
      out.reason += "; a true difference of " + number(t.margin, t) + " would pass " +
                    fixed(100 * false_comfort(prediction, t.margin), 0) + " % of the time";
    return out;
  }
  const bool clear = !possible.contains(ours);
  out.p = prediction.two_sided_p(ours);
  out.verdict = clear ? differs(delta, t) : Verdict::kInconclusive;
  out.reason = "one run, outside the 95 % prediction interval " + band;
  if (!clear) {
    out.reason += "; more runs would decide";
  } else {
    out.reason += ", and outside the 99 % one";
    if (!is_outside(delta, t))
      out.reason += "; inside the margin, which only several runs can show";
  }
  return out;
}

}  // namespace

Judgement judge_means(const Summary& published, const Summary& ours, const Tolerance& tolerance) {
  const MeanComparison c = welch(published, ours);
  Judgement out = judge_comparison(c, tolerance, "");
  if (out.verdict == Verdict::kInconclusive)
    out.reason += more_runs(runs_that_decide(published, ours, c.delta));
  add_inputs(out, {{"published_mean", published.mean},
                   {"published_sd", published.sd},
                   {"published_n", published.n}});
  add_inputs(out, own_inputs(ours));
  return out;
}

Judgement judge_lists(std::span<const double> published, std::span<const double> ours,
                      const Tolerance& tolerance) {
  const Summary theirs = summarise(published);
  const Summary own = summarise(ours);
  Judgement out = judge_means(theirs, own, tolerance);
  const std::optional<double> exact = permutation_p(published, ours);
  if (!exact) return out;
  add_inputs(out, {{"permutation_p", *exact}});
  const double welch_p = welch(theirs, own).p;
  if ((*exact < kSignificant) != (welch_p < kSignificant)) {
    out.reason +=
        "; the exact permutation test says p " + p_text(*exact) + ", Welch's p " + p_text(welch_p);
  }
  return out;
}

Judgement judge_single_run(const Summary& published, double ours, const Tolerance& t) {
  Judgement out = judge_prediction(predict(published, 1), ours, t);
  add_inputs(out, {{"published_sd", published.sd}, {"published_n", published.n}});
  return out;
}

Judgement judge_borrowed(const Summary& published, const Summary& lender, const Summary& ours,
                         const Tolerance& t) {
  Judgement out =
      ours.n == 1 ? judge_prediction(predict_with_borrowed_sd(published, lender, 1), ours.mean, t)
                  : judge_comparison(with_borrowed_sd(published, lender, ours), t, "run more");
  out.reason += "; spread borrowed from a neighbouring row";
  add_inputs(out, {{"published_mean", published.mean},
                   {"published_n", published.n},
                   {"lender_sd", lender.sd},
                   {"lender_n", lender.n}});
  add_inputs(out, own_inputs(ours));
  return out;
}

Judgement judge_known_n(const Summary& published, const Summary& ours, const Tolerance& t) {
  Judgement out = judge_comparison(with_own_sd(published, ours), t, "run more");
  out.reason += "; our own spread stands for the published one";
  add_inputs(out, {{"published_mean", published.mean}, {"published_n", published.n}});
  add_inputs(out, own_inputs(ours));
  return out;
}

Judgement judge_margin_only(double published, const Summary& ours, const Tolerance& t) {
  Judgement out;
  out.delta = ours.mean - published;
  out.inputs = {{"published", published}, {"margin", t.margin}};
  add_inputs(out, own_inputs(ours));
  const std::string alone = std::string(t.reference) + " has no spread";
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
  out.more_runs_help = !significant;
  out.reason =
      by(*out.delta, t) + ", outside the margin" +
      (significant
           ? ", p " + p_text(*out.p) + " if " + t.reference + " is one run with our spread"
           : "; " + alone + (ours.n < 2 ? " and ours is one run" : " and ours does not decide"));
  return out;
}

}  // namespace reciperun
