// What the rules share: which side of a margin a difference lies on, and how it is said.
#pragma once

#include <string>

#include "tools/recipe_run/verdict/rules.h"

namespace reciperun {

inline constexpr double kSignificant = 0.05;

// +1 if larger is better, -1 if smaller is, 0 if neither.
int good_side(const Tolerance& tolerance);

bool is_outside(double delta, const Tolerance& tolerance);

// DIFFERS, for the better or the worse.
Verdict differs(double delta, const Tolerance& tolerance);

std::string number(double x, const Tolerance& tolerance);
// "lower by 0.20", "higher by 0.20".
std::string by(double delta, const Tolerance& tolerance);
// "0.0312", "< 0.0001".
std::string p_text(double p);

}  // namespace reciperun
