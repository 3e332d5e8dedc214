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
  kWithinTolerance,  // the measured value lies inside the margin, equivalence is not shown
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

enum class Evidence { kMeasured, kEmulated, kProjected };
std::string evidence_word(Evidence evidence);

// The outcome of one test, in the unit of the row.
struct Judgement {
  Verdict verdict = Verdict::kNotRun;
  std::string reason;                // one line
  std::optional<double> delta;       // ours minus published
  std::optional<Interval> interval;  // 90 % of delta for means; of the ratio for timing rows
  bool interval_of_ratio = false;
  std::optional<double> p;      // two-sided; set for every DIFFERS candidate, for Holm's correction
  bool more_runs_help = false;  // undecided, and more runs of ours could decide
  // Everything needed to compute the verdict again.
  std::vector<std::pair<std::string, double>> inputs;
};

// A judgement that takes no test.
Judgement judged(Verdict verdict, std::string reason);

// What the exit code of a run owes to one gate row.
Exit exit_of(Verdict verdict, bool require);

}  // namespace reciperun
