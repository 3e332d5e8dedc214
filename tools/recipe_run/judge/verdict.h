// The words of a verdict and what stands behind one row of a report.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/statistics/mean_tests.h"

namespace reciperun {

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

// "REPRODUCED", "DIFFERS (worse)", ...
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

}  // namespace reciperun
