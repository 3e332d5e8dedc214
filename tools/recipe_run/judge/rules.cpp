#include "tools/recipe_run/judge/rules.h"

#include <algorithm>
#include <cmath>

#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/statistics/repeats.h"

namespace reciperun {
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
    tested[i]->reason += "; not significant among the " + std::to_string(tested.size()) +
                         " rows that were tested (Holm p " + fixed(adjusted[i], 3) + ")";
  }
}

}  // namespace reciperun
