// Intervals of order statistics, exact by counting arrangements.
#include "tools/recipe_run/stats/repeats.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "tools/recipe_run/stats/distributions.h"
#include "tools/recipe_run/stats/means.h"

namespace reciperun {
namespace {

std::vector<double> sorted_copy(std::span<const double> values) {
  std::vector<double> out(values.begin(), values.end());
  std::sort(out.begin(), out.end());
  return out;
}

// P(Mann-Whitney U = u) for u = 0 .. n*m, by the usual recursion on counts of arrangements.
std::vector<double> mann_whitney_probabilities(int n, int m) {
  // counts[i][u]: arrangements of i and j items with statistic u, built up one j at a time.
  const auto size = static_cast<size_t>(n * m + 1);
  std::vector<std::vector<double>> counts(static_cast<size_t>(n + 1), std::vector<double>(size, 0));
  for (auto& row : counts) row[0] = 1;  // j = 0
  for (int j = 1; j <= m; ++j) {
    // f(i, j, u) = f(i - 1, j, u - j) + f(i, j - 1, u)
    for (int i = 1; i <= n; ++i) {
      for (size_t u = static_cast<size_t>(j); u < size; ++u) {
        counts[static_cast<size_t>(i)][u] +=
            counts[static_cast<size_t>(i - 1)][u - static_cast<size_t>(j)];
      }
    }
  }
  std::vector<double>& last = counts.back();
  const double total = std::accumulate(last.begin(), last.end(), 0.0);
  for (double& c : last) c /= total;
  return last;
}

}  // namespace

double order_interval_coverage(int n, int skip) { return 1 - 2 * binomial_cdf(skip, n, 0.5); }

MedianInterval median_interval(std::span<const double> repeats) {
  MedianInterval out;
  out.median = median(repeats);
  const std::vector<double> sorted = sorted_copy(repeats);
  const int n = static_cast<int>(sorted.size());
  int skip = 0;
  while (n > 7 && order_interval_coverage(n, skip + 1) >= 0.95) ++skip;
  out.interval = {sorted[static_cast<size_t>(skip)], sorted[static_cast<size_t>(n - 1 - skip)]};
  out.coverage = n == 1 ? 0 : order_interval_coverage(n, skip);
  return out;
}

int mann_whitney_critical(int n, int m, double tail) {
  const std::vector<double> probabilities = mann_whitney_probabilities(n, m);
  double cumulative = 0;
  int critical = -1;
  for (size_t u = 0; u < probabilities.size(); ++u) {
    cumulative += probabilities[u];
    if (cumulative > tail) break;
    critical = static_cast<int>(u);
  }
  return critical;
}

RatioInterval ratio_interval(std::span<const double> a, std::span<const double> b) {
  std::vector<double> ratios;
  for (double x : a) {
    for (double y : b) {
      if (!(x > 0) || !(y > 0)) throw std::domain_error("a ratio needs positive values");
      ratios.push_back(x / y);
    }
  }
  RatioInterval out;
  out.ratio = median(ratios);
  std::sort(ratios.begin(), ratios.end());
  const int n = static_cast<int>(a.size());
  const int m = static_cast<int>(b.size());
  const int critical = std::max(0, mann_whitney_critical(n, m, 0.025));
  out.lower_rank = critical + 1;
  out.upper_rank = n * m - critical;
  out.interval = {ratios[static_cast<size_t>(out.lower_rank - 1)],
                  ratios[static_cast<size_t>(out.upper_rank - 1)]};
  const std::vector<double> probabilities = mann_whitney_probabilities(n, m);
  out.coverage =
      1 - 2 * std::accumulate(probabilities.begin(), probabilities.begin() + critical + 1, 0.0);
  if (n * m == 1) out.coverage = 0;
  return out;
}

std::vector<double> holm_adjusted(std::span<const double> p) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t i, size_t j) { return p[i] < p[j]; });
  std::vector<double> adjusted(p.size());
  double running = 0;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    running =
        std::max(running, std::min(1.0, static_cast<double>(p.size() - rank) * p[order[rank]]));
    adjusted[order[rank]] = running;
  }
  return adjusted;
}

namespace {

constexpr double kMostSplits = 1e6;

double splits(size_t n, size_t k) {
  double count = 1;
  for (size_t i = 1; i <= k; ++i) count *= static_cast<double>(n - k + i) / static_cast<double>(i);
  return count;
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
  std::vector<bool> chosen(n);
  std::fill_n(chosen.begin(), a.size(),
              true);  // the largest arrangement: the others come before it
  const auto distance = [&] {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += chosen[i] ? all[i] : 0;
    return std::abs(sum - mean);
  };
  // A little less, so that equal splits count, whatever their rounding.
  const double observed = distance() * (1 - 1e-12);
  double extreme = 0;
  double count = 0;
  do {
    extreme += distance() >= observed ? 1 : 0;
    ++count;
  } while (std::prev_permutation(chosen.begin(), chosen.end()));
  return extreme / count;
}

}  // namespace reciperun
