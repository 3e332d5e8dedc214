#include "tools/recipe_run/statistics/permutation.h"

#include <cmath>
#include <numeric>
#include <vector>

namespace reciperun {
namespace {

constexpr double kMostSplits = 1e6;

double splits(size_t n, size_t k) {
  double count = 1;
  for (size_t i = 1; i <= k; ++i) count *= static_cast<double>(n - k + i) / static_cast<double>(i);
  return count;
}

// Moves to the next choice of k out of n in lexicographic order; false after the last.
bool next_choice(std::vector<size_t>& chosen, size_t n) {
  const size_t k = chosen.size();
  size_t i = k;
  while (i > 0 && chosen[i - 1] == n - k + i - 1) --i;
  if (i == 0) return false;
  ++chosen[i - 1];
  for (size_t j = i; j < k; ++j) chosen[j] = chosen[j - 1] + 1;
  return true;
}

}  // namespace

std::optional<double> permutation_p(std::span<const double> a, std::span<const double> b) {
  const size_t n = a.size() + b.size();
  if (a.empty() || b.empty() || splits(n, a.size()) > kMostSplits) return std::nullopt;
  std::vector<double> all(a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  // With all values given, the sum over the first list decides the difference of the means.
  const double mean = std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(n) *
                      static_cast<double>(a.size());
  const auto distance = [&](const std::vector<size_t>& chosen) {
    double sum = 0;
    for (size_t i : chosen) sum += all[i];
    return std::abs(sum - mean);
  };
  std::vector<size_t> chosen(a.size());
  std::iota(chosen.begin(), chosen.end(), size_t{0});
  // A little less, so that equal splits count, whatever their rounding.
  const double observed = distance(chosen) * (1 - 1e-12);
  double extreme = 0;
  double count = 0;
  do {
    extreme += distance(chosen) >= observed ? 1 : 0;
    ++count;
  } while (next_choice(chosen, n));
  return extreme / count;
}

}  // namespace reciperun
