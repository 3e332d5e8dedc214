// What published tables call "latency 99 %", and how sure a quantile is.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "tools/recipe_run/stats/means.h"

namespace reciperun {

// For sorted x(1) <= ... <= x(n), all in the unit of the samples:
//   NearestRank         x(ceil(np))                    the tool's own default
//   MeanOfLowest        mean of x(1) .. x(floor(np)), without the `drop_slowest` largest
//   MeanUpperCi         mean + z s / sqrt(n), population s, z for the two-sided level p
//   MeanOfSegmentType7  interpolation at 1 + (n - 1)p (NumPy's default) in each of `segments` equal
//                       parts in time order, averaged
enum class Estimator { kNearestRank, kMeanOfLowest, kMeanUpperCi, kMeanOfSegmentType7 };
struct Quantile {
  double p = 0;  // above 0, below 1
  Estimator estimator = Estimator::kNearestRank;
};
struct QuantileOptions {
  int drop_slowest = 0;
  int segments = 2;
};

// Absent if `samples` (in time order) are too few for the estimator.
std::optional<double> estimate_quantile(std::span<const double> samples, const Quantile& quantile,
                                        const QuantileOptions& options = {});

// "p99", "99 % (mean of the fastest)", for headings.
std::string quantile_title(const Quantile& quantile);

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
