// Verdicts, and one function per kind of published row that comes to one: numbers in, judgement
// out. No recipes, no files.
//
//   rules.cpp        what all share: sides of a margin, words, Holm's correction; the rules for the
//                    largest, the smallest and the standard deviation of several runs
//   mean_rules.cpp   means and single runs
//   ratio_rules.cpp  throughput, latency, time, speed-up, projected time
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tools/recipe_run/stats/means.h"
#include "tools/recipe_run/util/error.h"

namespace reciperun {

// --- The words of a verdict and what stands behind one row of a report. ---

enum class Verdict {
  kReproduced,       // equivalence shown
  kWithinTolerance,  // the measured value lies inside the margin; equivalence is not shown
  kConsistent,       // it lies where the published spread lets it fall; the margin takes no part
  kDiffersWorse,     // outside the margin, and significantly so
  kDiffersBetter,
  kInconclusive,   // outside the margin, but not significantly
  kNotComparable,  // other hardware, modified recipe, substitute data
  kNotRun,
  kInvalid,           // measured, but not fit to be compared: noise, resumed timing, NaN
  kNoPublishedValue,  // a row that is only measured
};

// What a verdict says of its row: agreement, shown or not excluded; disagreement; no answer to the
// question that was asked; no question.
enum class Standing { kGood, kFair, kBad, kOpen, kNone };
struct VerdictFacts {
  const char* word;  // "REPRODUCED", "DIFFERS (worse)", ...
  Standing standing;
};
const VerdictFacts& facts_of(Verdict verdict);
std::string verdict_word(Verdict verdict);

// The outcome of one test, in the unit of the row.
struct Judgement {
  Verdict verdict = Verdict::kNotRun;
  std::string reason;                // one line
  std::optional<double> delta;       // ours minus published
  std::optional<Interval> interval;  // of delta for means; of the ratio for timing rows
  bool interval_of_ratio = false;
  // Two-sided p of "ours does not differ", and the level that this look at the results may spend on
  // it. Set by every test that computes one, whatever its outcome: Holm's correction counts them.
  std::optional<double> p;
  double level = 0.05;
  bool more_runs_help = false;  // undecided, and more runs of ours could decide
  // Everything needed to compute the verdict again.
  std::vector<std::pair<std::string, double>> inputs;
};

// A judgement that takes no test.
Judgement judged(Verdict verdict, std::string reason);

// Whether ours was held against the published value: REPRODUCED to INCONCLUSIVE.
bool is_compared(Verdict verdict);

// What the exit code of a run owes to one gate row.
Exit exit_of(Verdict verdict, bool require);

// --- The rules. ---

// What is held against what: one statistic of several values on each side.
enum class Statistic { kMean, kSpread, kLargest, kSmallest, kRatio };

struct Tolerance {
  double margin = 0;  // in the row's unit; for ratio rules a fraction of the published value
  bool higher_is_better = true;
  bool lower_is_better = false;  // neither: any difference is as bad
  bool one_sided = false;        // better than published is never outside
  int decimals = 3;              // for the numbers in reasons
  // What this look at the results may spend, both on claiming equivalence (one-sided) and on
  // claiming a difference (two-sided): less than 0.05 where the runs are looked at several times
  // (stats/looks.h), 0 if nothing is left.
  double level = 0.05;
  // What ours is held against, for reasons: another run where two runs are compared.
  const char* reference = "the published value";
};

// The runs behind a published number.
struct Published {
  Summary
      runs;  // n = 0 if the source does not say how many, sd = 0 if it does not say their spread
  std::vector<double> list = {};       // the runs themselves, where they are printed
  std::optional<Summary> lender = {};  // whose spread stands in where `runs` has none
  std::string lender_recipe = {};      // "" = another row of the same recipe

  bool has_spread() const { return runs.n >= 2 && runs.sd > 0; }
};

// One statistic of our runs against the published one, by whatever the published side allows:
//   - mean with spread, several runs of ours: Welch interval and equivalence test; the exact
//     permutation test of short lists is named when it disagrees about significance;
//   - mean without spread: the lender's, else our own (n >= 2) stands in. A number whose runs are
//     not counted is taken as one run;
//   - one run of ours: inside the 95 % prediction interval CONSISTENT; else inside the margin (or
//     better, where that is never outside of it) WITHIN TOLERANCE; outside both DIFFERS if outside
//     the 99 % interval too, else INCONCLUSIVE. Never REPRODUCED: a single run cannot exclude a
//     difference, and the reason says how often one of the margin's size would go unseen. Where
//     nobody lends a spread, the margin alone decides, and never DIFFERS;
//   - largest and smallest: CONSISTENT where the published mean and spread let the extreme of as
//     many runs fall;
//   - standard deviation: CONSISTENT where the F distribution lets the ratio of both fall.
Judgement judge_runs(Statistic statistic, const Published& published, std::span<const double> ours,
                     const Tolerance& tolerance);

// The rules that judge_runs chooses from. `ours` and `published` have at least as many runs as
// said. Mean of n_p >= 2 runs with a spread against n >= 2 of ours.
Judgement judge_means(const Summary& published, const Summary& ours, const Tolerance& tolerance);
// The same against one of ours.
Judgement judge_single_run(const Summary& published, double ours, const Tolerance& tolerance);
Judgement judge_extreme(const Summary& published, std::span<const double> ours, bool maximum,
                        const Tolerance& tolerance);
Judgement judge_spread(const Summary& published, const Summary& ours, const Tolerance& tolerance);

// Throughput, latency, time: repeats of ours (> 0) against one published number, by their ratio.
// From six repeats on the interval is that of their order statistics, below Student's of their
// logarithms.
Judgement judge_ratio(double published, std::span<const double> repeats,
                      const Tolerance& tolerance);

// Speed-up or weak scaling: the ratio of two sets of repeats against a published ratio. The
// interval is Hodges' and Lehmann's where the sets are large enough for 95 %, else Welch's of the
// logarithms.
Judgement judge_speedup(double published, std::span<const double> numerator,
                        std::span<const double> denominator, const Tolerance& tolerance);

// A time, or a ratio of times, computed from measured rates (time_rows.cpp): WITHIN TOLERANCE,
// INCONCLUSIVE or DIFFERS, never REPRODUCED.
Judgement judge_projection(double published, double projected, Interval interval,
                           const Tolerance& tolerance);

// Holm's correction over all rows of one report for which a p was computed: DIFFERS that do not
// survive it become INCONCLUSIVE.
void correct_for_many_rows(std::span<Judgement* const> rows);

// --- What the rules share. ---

// +1 if larger is better, -1 if smaller is, 0 if neither.
int good_side(const Tolerance& tolerance);
// Whether a difference downwards, or upwards, can be outside.
bool may_fall_short(const Tolerance& tolerance);
bool may_exceed(const Tolerance& tolerance);
bool is_outside(double delta, const Tolerance& tolerance);
// The whole interval of the difference lies inside the margin, or outside of it.
bool is_inside(const Interval& interval, const Tolerance& tolerance);
bool is_outside(const Interval& interval, const Tolerance& tolerance);
// DIFFERS, for the better or the worse.
Verdict differs(double delta, const Tolerance& tolerance);
// Below it a prediction interval is left for good: 0.01 of a first and only look.
double clear_level(const Tolerance& tolerance);

std::string number(double x, const Tolerance& tolerance);
// "lower by 0.20", "higher by 0.20".
std::string by(double delta, const Tolerance& tolerance);
// "0.0312", "< 0.0001".
std::string p_text(double p);

}  // namespace reciperun
