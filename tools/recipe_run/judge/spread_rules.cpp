// The largest, the smallest and the spread of several runs.
#include <algorithm>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/judge/rules.h"
#include "tools/recipe_run/statistics/distributions.h"

namespace reciperun {
namespace {

// CONSISTENT inside the 95 % interval, DIFFERS outside the 99 % one, INCONCLUSIVE between.
void decide(Judgement& out, bool usual, double p, double off, const Tolerance& t) {
  out.p = p;
  out.level = t.level;
  out.inputs.emplace_back("p", p);
  out.verdict = Verdict::kConsistent;
  if (usual) return;
  const bool clear = p < clear_level(t);
  out.verdict = clear ? differs(off, t) : Verdict::kInconclusive;
  out.more_runs_help = !clear;
  out.reason += "; outside it, p " + p_text(p);
}

}  // namespace

Judgement judge_extreme(const Summary& published, std::span<const double> ours, bool maximum,
                        const Tolerance& t) {
  if (published.n < 2 || !(published.sd > 0)) {
    return judged(Verdict::kInconclusive,
                  std::string(t.reference) + " has no spread to expect an extreme from");
  }
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
  out.reason = std::string(maximum ? "largest" : "smallest") + " of " + std::to_string(k) +
               " expected in " + number(usual.lower, t) + " … " + number(usual.upper, t);
  decide(out, usual.contains(value), extreme_two_sided_p(published, k, maximum, value),
         value - (value < usual.lower ? usual.lower : usual.upper), t);
  return out;
}

Judgement judge_spread(const Summary& published, const Summary& ours, const Tolerance& t) {
  if (!(published.sd > 0) || !(ours.sd > 0) || ours.n < 2 || published.n < 2) {
    Judgement out =
        judged(Verdict::kInconclusive, "a spread needs at least two different runs on both sides");
    out.more_runs_help = ours.n < 2;
    return out;
  }
  const SdRatio ratio = sd_ratio(published, ours);
  Judgement out;
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
  out.reason = fixed(ratio.ratio, 2) + " times the spread of " + t.reference + "; " +
               fixed(usual.lower, 2) + " … " + fixed(usual.upper, 2) + " is unremarkable";
  // A smaller spread is the better one, whatever the direction of the metric.
  Tolerance smaller_is_better = t;
  smaller_is_better.higher_is_better = false;
  smaller_is_better.lower_is_better = true;
  decide(out, ratio.interval95.contains(1),
         fisher_two_sided_p(ratio.ratio * ratio.ratio, ours.n - 1, published.n - 1),
         ratio.ratio - 1, smaller_is_better);
  return out;
}

}  // namespace reciperun
