// What all rules share, and the rules for the largest, the smallest and the spread of several runs.
#include "tools/recipe_run/judge/rules.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tools/recipe_run/stats/distributions.h"
#include "tools/recipe_run/stats/repeats.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {

const VerdictFacts& facts_of(Verdict verdict) {
  using enum Standing;
  static constexpr std::array<VerdictFacts, 10> kFacts = {{{"REPRODUCED", kGood},
                                                           {"WITHIN TOLERANCE", kFair},
                                                           {"CONSISTENT", kFair},
                                                           {"DIFFERS (worse)", kBad},
                                                           {"DIFFERS (better)", kGood},
                                                           {"INCONCLUSIVE", kOpen},
                                                           {"NOT COMPARABLE", kNone},
                                                           {"NOT RUN", kNone},
                                                           {"INVALID", kOpen},
                                                           {"NO PUBLISHED VALUE", kNone}}};
  return kFacts.at(static_cast<size_t>(verdict));
}

std::string verdict_word(Verdict verdict) { return facts_of(verdict).word; }

Judgement judged(Verdict verdict, std::string reason) {
  Judgement out;
  out.verdict = verdict;
  out.reason = std::move(reason);
  return out;
}

bool is_compared(Verdict verdict) { return verdict <= Verdict::kInconclusive; }

Exit exit_of(Verdict verdict, bool require) {
  const Standing standing = facts_of(verdict).standing;
  const bool wanted = require && verdict != Verdict::kNoPublishedValue;
  return standing == Standing::kBad              ? Exit::kDiffers
         : standing == Standing::kOpen           ? Exit::kUndecided
         : standing == Standing::kNone && wanted ? Exit::kNotRun
                                                 : Exit::kOk;
}

namespace {

constexpr double kWholeLevel = 0.05;  // what all looks share

}  // namespace

int good_side(const Tolerance& t) { return t.higher_is_better ? 1 : t.lower_is_better ? -1 : 0; }

bool may_fall_short(const Tolerance& t) { return !t.one_sided || good_side(t) >= 0; }

bool may_exceed(const Tolerance& t) { return !t.one_sided || good_side(t) <= 0; }

bool is_outside(double delta, const Tolerance& t) { return is_outside({delta, delta}, t); }

bool is_inside(const Interval& i, const Tolerance& t) {
  return (!may_fall_short(t) || -t.margin < i.lower) && (!may_exceed(t) || i.upper < t.margin);
}

bool is_outside(const Interval& i, const Tolerance& t) {
  return (may_fall_short(t) && i.upper < -t.margin) || (may_exceed(t) && i.lower > t.margin);
}

Verdict differs(double delta, const Tolerance& t) {
  return delta * good_side(t) > 0 ? Verdict::kDiffersBetter : Verdict::kDiffersWorse;
}

double clear_level(const Tolerance& t) { return t.level / 5; }

std::string number(double x, const Tolerance& t) { return fixed(x, t.decimals); }

std::string by(double delta, const Tolerance& t) {
  return std::string(delta < 0 ? "lower by " : "higher by ") + number(std::abs(delta), t);
}

std::string p_text(double p) { return p < 0.0001 ? "< 0.0001" : fixed(p, 4); }

void correct_for_many_rows(std::span<Judgement* const> rows) {
  std::vector<Judgement*> tested;
  std::vector<double> p;
  for (Judgement* row : rows) {
    if (!row->p) continue;
    tested.push_back(row);
    // A look that may spend less has to show more.
    p.push_back(row->level > 0 ? std::min(1.0, *row->p * kWholeLevel / row->level) : 1);
  }
  const std::vector<double> adjusted = holm_adjusted(p);
  for (size_t i = 0; i < tested.size(); ++i) {
    tested[i]->inputs.emplace_back("holm_p", adjusted[i]);
    const bool differs = tested[i]->verdict == Verdict::kDiffersWorse ||
                         tested[i]->verdict == Verdict::kDiffersBetter;
    if (!differs || adjusted[i] <= kWholeLevel) continue;
    tested[i]->verdict = Verdict::kInconclusive;
    tested[i]->more_runs_help = true;
    tested[i]->reason +=
        fmt::format("; not significant among the {} rows that were tested (Holm p {})",
                    tested.size(), fixed(adjusted[i], 3));
  }
}

// The largest, the smallest and the spread of several runs.

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
  out.reason = fmt::format("{} of {} expected in {} … {}", maximum ? "largest" : "smallest", k,
                           number(usual.lower, t), number(usual.upper, t));
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
  out.reason =
      fmt::format("{} times the spread of {}; {} … {} is unremarkable", fixed(ratio.ratio, 2),
                  t.reference, fixed(usual.lower, 2), fixed(usual.upper, 2));
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
