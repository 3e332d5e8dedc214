// The eight things that published tables call "latency 99 %", and how sure a quantile is.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "recipes/recipe.pb.h"
#include "tools/recipe_run/statistics/mean_tests.h"

namespace reciperun {

// For sorted x(1) <= ... <= x(n), all in the unit of the samples:
//   NEAREST_RANK           x(ceil(np))                    the tool's own default
//   LINEAR_TYPE7           interpolation at 1 + (n - 1)p  NumPy's default
//   FLOOR_INDEX            x(floor(np) + 1)               MLPerf LoadGen's print-out
//   MAX_OF_LOWEST          x(floor(np))                   NVIDIA's BERT scripts
//   MEAN_OF_LOWEST         mean of x(1) .. x(floor(np)), without the `drop_slowest` largest
//   MEAN_UPPER_CI          mean + z s / sqrt(n), population s, z for the two-sided level p
//   EARLY_STOP_BOUND       x(n - t + 1), t >= 1 the largest with P(Bin(n, 1-p) <= t) < 0.01:
//                          LoadGen's result; absent below 64 samples at p90, 662 at p99
//   MEAN_OF_SEGMENT_TYPE7  type 7 of each of `segments` equal parts in time order, averaged
struct QuantileOptions {
  int drop_slowest = 0;
  int segments = 2;
};

// Absent if `samples` (in time order) are too few for the definition.
std::optional<double> estimate_quantile(std::span<const double> samples,
                                        const v1::Quantile& quantile,
                                        const QuantileOptions& options = {});

// "p99 (nearest rank)", "99 % (mean of fastest)", for headings.
std::string quantile_title(const v1::Quantile& quantile);

// Ranks l, u (from 1) with P(x(l) <= true quantile <= x(u)) >= 95 % for independent samples; absent
// if n is too small.
struct Ranks {
  int lower = 0;
  int upper = 0;
};
std::optional<Ranks> quantile_ranks(int n, double p);

// Fewest samples for which quantile_ranks exists: 36 (p90), 72 (p95), 368 (p99).
int minimum_samples(double p);

// Number of independent samples that carry as much information as these autocorrelated ones.
double effective_samples(std::span<const double> samples);

// 95 % interval of the quantile by nearest rank. Uses the distribution-free ranks, or, if the
// effective number of samples is under half of n, a moving-block bootstrap with block ceil(n^(1/3))
// and fixed seed.
struct QuantileInterval {
  Interval interval;
  bool bootstrapped = false;
  double effective_n = 0;
};
std::optional<QuantileInterval> quantile_interval(std::span<const double> samples, double p);

}  // namespace reciperun
