#include "tools/recipe_run/stats/looks.h"

#include <algorithm>
#include <array>

namespace reciperun {
namespace {

constexpr double kAllLooks = 0.05;  // what they share
constexpr double kRounding = 1e-9;

}  // namespace

double level_of_look(int look) {
  constexpr std::array<double, kMostLooks> kLevels = {0.020, 0.015, 0.015};
  return look >= 0 && look < kMostLooks ? kLevels[static_cast<size_t>(look)] : 0;
}

std::vector<uint32_t> planned_looks(uint32_t count, uint32_t max_count) {
  if (max_count <= count) return {count};
  const uint32_t middle = count + (max_count - count + 1) / 2;
  if (middle == max_count) return {count, max_count};
  return {count, middle, max_count};
}

double level_at(std::span<const Look> looks, uint32_t runs, bool more_may_follow) {
  int earlier = 0;
  double left = kAllLooks;
  for (const Look& look : looks) {
    if (look.runs == runs) return look.level;
    if (look.runs > runs) continue;
    ++earlier;
    left -= look.level;
  }
  const double planned = earlier == 0 && !more_may_follow ? kAllLooks : level_of_look(earlier);
  // What subtraction leaves of nothing is nothing, and it takes nothing from a planned level.
  if (planned <= left + kRounding) return planned;
  return left > kRounding ? left : 0;
}

}  // namespace reciperun
