#include "tools/recipe_run/statistics/sequential.h"

#include <algorithm>
#include <array>

namespace reciperun {

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

double level_at(std::span<const uint32_t> looks, uint32_t runs, bool more_may_follow) {
  const auto earlier =
      std::count_if(looks.begin(), looks.end(), [&](uint32_t n) { return n < runs; });
  if (earlier == 0 && !more_may_follow) return 0.05;
  return level_of_look(static_cast<int>(earlier));
}

}  // namespace reciperun
