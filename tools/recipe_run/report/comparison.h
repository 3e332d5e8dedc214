// Two runs against each other, row by row, by the tests that hold a run against published values:
// the first run takes the published side.
//
//   means       Welch's interval inside the margin is REPRODUCED; one run against several: the
//               prediction interval; one against one: the margin alone, never REPRODUCED
//   extremes    the first run's mean and spread say where the extreme of as many runs falls
//   spreads     the F interval of their ratio
//   timings     Hodges-Lehmann ratio of the two sets of repeats, with Wilcoxon's exact interval
//
// Holm's correction is over all rows. Runs of different recipes, and timings on different machines,
// are NOT COMPARABLE unless asked for: then the verdict is about what the difference does.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/recipe_run/judge/rows.h"
#include "tools/recipe_run/record/run_folder.h"
#include "tools/recipe_run/report/document.h"

namespace reciperun {

// One side: a run, or the report.json of a run that lies elsewhere.
struct Side {
  record::Run run;  // of a report, what that says of it
  std::vector<Row> rows;
  std::optional<v1::Recipe> recipe;  // absent for a report, which names it by digest only
};
Side side_of(const RunRecord& run);
// Error kUsage, naming the file, for one that is no report.json of a version that can be compared.
Side side_of_report(const fs::path& file);

struct CompareOptions {
  bool despite_differences = false;  // judge although recipe or machine differ
  bool all_rows = false;             // every row counts for the exit code, not only gate rows
};

struct Comparison {
  Side first;
  Side second;
  std::vector<Change> differences;     // of recipe, device, engine; empty: the same
  std::vector<Row> rows;               // in the first run's order
  std::vector<std::string> unmatched;  // one line per row on one side only; how many on none
  Exit exit = Exit::kOk;               // of the rows that count
};

Comparison compare_runs(Side first, Side second, const CompareOptions& options = {});

Document document_of(const Comparison& comparison);
std::string json_comparison(const Comparison& comparison);

}  // namespace reciperun
