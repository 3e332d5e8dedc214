// Looking at the results more than once: seeds are added while a row is undecided, and every look
// spends its share of the 5 % that a false REPRODUCED may cost.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace reciperun {

// One-sided levels of the looks: 0.020, 0.015, 0.015. They sum to 0.05, so that whatever depends on
// the looks before, the chance of a false REPRODUCED stays below it (union bound).
inline constexpr int kMostLooks = 3;
double level_of_look(int look);  // counted from 0; 0 beyond the last: nothing is left to spend

// Numbers of runs at which to look: `count`, then twice more up to `max_count`. Only `count` if
// there is no room to top up.
std::vector<uint32_t> planned_looks(uint32_t count, uint32_t max_count);

struct Look {
  uint32_t runs = 0;
  double level = 0;  // that it spent
};

// The level at which a report over `runs` runs may judge, given the looks made so far (in order)
// and whether more may follow. A look that was made keeps its level. A first and only look has the
// whole 0.05; whatever comes after it, planned or not, has at most what the looks before it left.
double level_at(std::span<const Look> looks, uint32_t runs, bool more_may_follow);

}  // namespace reciperun
