// The largest, the smallest and the spread of several runs.
#include <algorithm>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/statistics/distributions.h"
#include "tools/recipe_run/verdict/wording.h"

namespace reciperun {
namespace {

constexpr double kClear = 0.01;  // outside of 99 %: DIFFERS, as for a single run

}  // namespace

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
  out.reason = std::string(maximum ? "largest" : "smallest") + " of " + std::to_string(k) +
               " expected in " + number(usual.lower, t) + " … " + number(usual.upper, t);
  if (usual.contains(value)) {
    out.verdict = Verdict::kWithinTolerance;
    return out;
  }
  const double p = extreme_two_sided_p(published, k, maximum, value);
  const double off = value - (value < usual.lower ? usual.lower : usual.upper);
  out.p = p;
  out.inputs.emplace_back("p", p);
  out.verdict = p < kClear ? differs(off, t) : Verdict::kInconclusive;
  out.more_runs_help = p >= kClear;
  out.reason += "; outside it, p " + p_text(p);
  return out;
}

Judgement judge_spread(const Summary& published, const Summary& ours, const Tolerance& t) {
  Judgement out;
  if (!(published.sd > 0) || !(ours.sd > 0) || ours.n < 2 || published.n < 2) {
    out.verdict = Verdict::kInconclusive;
    out.reason = "a spread needs at least two different runs on both sides";
    out.more_runs_help = ours.n < 2;
    return out;
  }
  const SdRatio ratio = sd_ratio(published, ours);
  const double p = fisher_two_sided_p(ratio.ratio * ratio.ratio, ours.n - 1, published.n - 1);
  out.interval = ratio.interval95;
  out.interval_of_ratio = true;
  out.inputs = {{"published_sd", published.sd},
                {"published_n", published.n},
                {"own_sd", ours.sd},
                {"own_n", ours.n},
                {"ratio", ratio.ratio},
                {"p", p},
                {"interval95_lower", ratio.interval95.lower},
                {"interval95_upper", ratio.interval95.upper}};
  const Interval usual = unremarkable_sd_ratio(published.n, ours.n);
  out.reason = fixed(ratio.ratio, 2) + " times the spread of " + t.reference + "; " +
               fixed(usual.lower, 2) + " … " + fixed(usual.upper, 2) + " is unremarkable";
  out.verdict = Verdict::kWithinTolerance;
  if (ratio.interval95.contains(1)) return out;
  out.p = p;
  out.reason += "; warning: outside it, p " + p_text(p);
  out.verdict = p >= kClear       ? Verdict::kInconclusive
                : ratio.ratio > 1 ? Verdict::kDiffersWorse
                                  : Verdict::kDiffersBetter;
  out.more_runs_help = p >= kClear;
  return out;
}

}  // namespace reciperun
