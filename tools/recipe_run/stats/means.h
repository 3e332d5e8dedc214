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

// Comparing mean with mean: Welch interval, equivalence by two one-sided tests, prediction and
// borrowed-spread intervals, ratio of standard deviations. Differences are ours minus published, in
// the metric's own unit and sign.

struct Interval {
  double lower = 0;
  double upper = 0;
  bool contains(double x) const { return lower <= x && x <= upper; }
  bool inside(double low, double high) const { return low < lower && upper < high; }
};

struct MeanComparison {
  double delta = 0;
  double se = 0;  // standard error of delta
  double df = 0;  // degrees of freedom
  double p = 1;   // two-sided, of "no difference"
  Interval interval95;

  // The interval that two one-sided tests at `level` each look at: inside the margin is equivalence
  // (TOST).
  Interval equivalence_interval(double level) const;
  // One-sided p of "the true difference is at least `value`".
  double p_at_least(double value) const;
};

// A difference with its standard error >= 0 and degrees of freedom.
MeanComparison mean_with_se(double delta, double se, double df);

// Both n >= 2. Equal constants on both sides (se = 0) give a degenerate interval and p = 1,
// different ones p = 0.
MeanComparison welch(const Summary& published, const Summary& ours);

// The published mean has no spread of its own: `lender` gives it. Pooled with ours where ours.n
// >= 2.
MeanComparison with_borrowed_sd(const Summary& published, const Summary& lender,
                                const Summary& ours);

// The published mean of published.n runs has no spread of its own and nobody lends one: ours (n >=
// 2) stands for both.
MeanComparison with_own_sd(const Summary& published, const Summary& ours);

// Where the mean of new runs of the published system falls.
struct Prediction {
  double mean = 0;
  double se = 0;  // of one such mean about the published one, rounding of the latter included
  double df = 0;

  Interval interval(double level) const;
  double two_sided_p(double value) const;
};
// The mean of k new runs, from a published mean and sd (n >= 2).
Prediction predict(const Summary& published, int k);
// The same where the published value (n >= 1) has no spread of its own and `lender` gives it.
Prediction predict_with_borrowed_sd(const Summary& published, const Summary& lender, int k);

// Probability that a run which is truly worse by `drop` falls inside the 95 % interval all the
// same.
double false_comfort(const Prediction& prediction, double drop);

// s / s_p with its interval for the true ratio, from the F distribution. Both n >= 2 and sd > 0.
struct SdRatio {
  double ratio = 0;
  Interval interval95;
};
SdRatio sd_ratio(const Summary& published, const Summary& ours);

// What the true sd is at most of one that n runs show, with 80 % confidence.
double sd_upper_factor(int n);

// Where the sd ratio of two samples of one system falls with 95 % probability.
Interval unremarkable_sd_ratio(int published_n, int own_n);

// Where the largest (or smallest) of k new runs falls with probability `level`, given the published
// mean and sd.
Interval extreme_interval(const Summary& published, int k, bool maximum, double level = 0.95);
// Two-sided probability of an extreme at least as far out as `value`.
double extreme_two_sided_p(const Summary& published, int k, bool maximum, double value);

}  // namespace reciperun
