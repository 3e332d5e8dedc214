#include "tools/recipe_run/verdict/wording.h"

#include <cmath>

#include "tools/recipe_run/base/text.h"

namespace reciperun {

int good_side(const Tolerance& t) { return t.higher_is_better ? 1 : t.lower_is_better ? -1 : 0; }

bool is_outside(double delta, const Tolerance& t) {
  const bool better = delta * good_side(t) > 0;
  return std::abs(delta) > t.margin && !(t.one_sided && better);
}

Verdict differs(double delta, const Tolerance& t) {
  return delta * good_side(t) > 0 ? Verdict::kDiffersBetter : Verdict::kDiffersWorse;
}

std::string number(double x, const Tolerance& t) { return fixed(x, t.decimals); }

std::string by(double delta, const Tolerance& t) {
  return std::string(delta < 0 ? "lower by " : "higher by ") + number(std::abs(delta), t);
}

std::string p_text(double p) { return p < 0.0001 ? "< 0.0001" : fixed(p, 4); }

}  // namespace reciperun
