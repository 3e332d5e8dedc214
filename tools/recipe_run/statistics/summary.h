// Mean and spread of a list of runs, and the published counterpart.
#pragma once

#include <span>

namespace reciperun {

// A sample described by its moments. `sd` is the sample standard deviation (n - 1); it means
// nothing for n < 2.
struct Summary {
  double mean = 0;
  double sd = 0;
  int n = 0;
  // Extra variance of `mean` from rounding when it was printed.
  double rounding_variance = 0;
};

// Fails with std::domain_error on an empty list or a value that is not finite.
Summary summarise(std::span<const double> values);

double median(std::span<const double> values);

// Population standard deviation (divisor n) of n >= 2 runs turned into the sample one.
double sample_sd_from_population(double sd, int n);

// Variance of a value printed in steps of `step`: uniform rounding error.
double rounding_variance(double step);

// The expected true value of a number truncated (not rounded) to steps of `step` when printed.
double undo_truncation(double printed, double step);

}  // namespace reciperun
