// Is a run what it says it is? Everything that can be computed again is, and compared.
#pragma once

#include <string>
#include <vector>

#include "tools/recipe_run/run_record/record.h"

namespace reciperun {

struct RunCheck {
  std::vector<std::string> problems;  // one sentence each, beginning with the file
  int files = 0;                      // under the seal
  int event_lines = 0;
  int evaluations = 0;  // found again in the event logs
  int rows = 0;         // verdicts computed again
  int reports = 0;      // files of report/ written again, byte for byte
};

// Compares
//   every file with the seal, every line of every event log with the next,
//   the evaluations of metrics.json with those of the event log, "best" and "last" with both,
//   the step counts of the benches with their step logs,
//   the verdicts recorded in run.json, and the files in report/, with those of the measurements.
// Reports are compared where the run was reported after its last change. A report of another
// version of this program may differ in its words: that is a problem too, and `recipe-run report`
// settles it.
RunCheck check_run(const RunRecord& run);

}  // namespace reciperun
