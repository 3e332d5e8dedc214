// The exact permutation test for two short lists of runs, which assumes nothing about their
// distribution.
#pragma once

#include <optional>
#include <span>

namespace reciperun {

// Two-sided p of "both lists come from one distribution", by the difference of their means over all
// splits of the joined list (5 against 5: 252). Absent if there are more than a million splits, or
// a list is empty.
std::optional<double> permutation_p(std::span<const double> a, std::span<const double> b);

}  // namespace reciperun
