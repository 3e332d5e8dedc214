// One function per kind of published row: numbers in, judgement out. No recipes, no files.
//
//   mean_rules.cpp    means and single runs
//   spread_rules.cpp  largest, smallest and standard deviation of several runs
//   ratio_rules.cpp   throughput, latency, time, speed-up, projected time
#pragma once

#include <span>

#include "tools/recipe_run/statistics/summary.h"
#include "tools/recipe_run/verdict/verdict.h"

namespace reciperun {

// What is held against what: one statistic of several values on each side.
enum class Statistic { kMean, kSpread, kLargest, kSmallest, kRatio };

struct Tolerance {
  double margin = 0;  // absolute, in the row's unit; for ratio rules relative
  bool higher_is_better = true;
  bool lower_is_better = false;  // neither: any difference is as bad
  bool one_sided = false;        // better than published is never outside
  int decimals = 3;              // for the numbers in reasons
  // One-sided level at which equivalence may be claimed; less than 0.05 where the runs are looked
  // at several times (statistics/sequential.h), 0 if nothing is left.
  double level = 0.05;
  // What ours is held against, for reasons: another run where two runs are compared.
  const char* reference = "the published value";
};

// Published mean ± sd of n_p >= 2 runs against n >= 2 of ours: Welch interval and equivalence test.
Judgement judge_means(const Summary& published, const Summary& ours, const Tolerance& tolerance);

// The same where the published runs are listed: a short list's exact permutation test is named when
// it disagrees with Welch's about significance.
Judgement judge_lists(std::span<const double> published, std::span<const double> ours,
                      const Tolerance& tolerance);

// Published mean ± sd of n_p >= 2 runs against one of ours: inside the 95 % prediction interval
// WITHIN TOLERANCE, outside the 99 % one DIFFERS, between them INCONCLUSIVE. Never REPRODUCED: a
// single run cannot exclude a difference; the reason says how often one of the margin's size would
// go unseen.
Judgement judge_single_run(const Summary& published, double ours, const Tolerance& tolerance);

// A published value of `published.n` >= 1 runs without spread; `lender` (n >= 2) stands in. One run
// of ours is judged by the prediction interval.
Judgement judge_borrowed(const Summary& published, const Summary& lender, const Summary& ours,
                         const Tolerance& tolerance);

// A published mean of published.n >= 2 runs without spread and without a lender: our own spread (n
// >= 2) stands in.
Judgement judge_known_n(const Summary& published, const Summary& ours, const Tolerance& tolerance);

// A published value without spread and without a lender: the margin alone, never better than WITHIN
// TOLERANCE.
Judgement judge_margin_only(double published, const Summary& ours, const Tolerance& tolerance);

// The largest or smallest of our runs against where the published mean and sd let the extreme of as
// many runs fall: that interval is the margin.
Judgement judge_extreme(const Summary& published, std::span<const double> ours, bool maximum,
                        const Tolerance& tolerance);

// Our spread against the published one.
Judgement judge_spread(const Summary& published, const Summary& ours, const Tolerance& tolerance);

// Throughput, latency, time: repeats of ours against one published number, by their ratio.
Judgement judge_ratio(double published, std::span<const double> repeats,
                      const Tolerance& tolerance);

// Speed-up or weak scaling: the ratio of two sets of repeats against a published ratio.
Judgement judge_speedup(double published, std::span<const double> numerator,
                        std::span<const double> denominator, const Tolerance& tolerance);

// A time computed from measured rates (projection.h): WITHIN TOLERANCE, INCONCLUSIVE or DIFFERS,
// never REPRODUCED.
Judgement judge_projection(double published, double projected, Interval interval,
                           const Tolerance& tolerance);

// Holm's correction over all DIFFERS of one report: those that do not survive become INCONCLUSIVE.
void correct_for_many_rows(std::span<Judgement* const> rows);

}  // namespace reciperun
