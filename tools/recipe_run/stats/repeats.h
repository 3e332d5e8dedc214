// Distribution-free intervals for a few repeats of a measurement, and Holm's correction.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "tools/recipe_run/stats/means.h"

namespace reciperun {

// Median of repeats with the interval of its order statistics: [min, max] up to 7 repeats, for more
// the narrowest symmetric pair that still covers 95 %. `coverage` is exact. One repeat has no
// interval: coverage 0, both ends the value.
struct MedianInterval {
  double median = 0;
  Interval interval;
  double coverage = 0;
};
MedianInterval median_interval(std::span<const double> repeats);

// Probability that [x(skip+1), x(n-skip)] of n repeats contains the true median.
double order_interval_coverage(int n, int skip);

// Hodges-Lehmann estimate of the ratio a / b with the exact 95 % Wilcoxon interval. With too few
// repeats for 95 % the interval is [min, max] of all ratios and `coverage` says less.
struct RatioInterval {
  double ratio = 0;
  Interval interval;
  int lower_rank = 0;  // ranks among all ratios, from 1
  int upper_rank = 0;
  double coverage = 0;
};
RatioInterval ratio_interval(std::span<const double> a, std::span<const double> b);

// Largest U with P(Mann-Whitney(n, m) <= U) <= tail, or -1.
int mann_whitney_critical(int n, int m, double tail);

// The p values adjusted by Holm's step-down rule, in the order given: at most 0.05 means that one
// is rejected at 5 % over the whole family.
std::vector<double> holm_adjusted(std::span<const double> p);

// The exact permutation test for two short lists of runs, which assumes nothing about their
// distribution.

// Two-sided p of "both lists come from one distribution", by the difference of their means over all
// splits of the joined list (5 against 5: 252). Absent if there are more than a million splits, or
// a list is empty.
std::optional<double> permutation_p(std::span<const double> a, std::span<const double> b);

}  // namespace reciperun
