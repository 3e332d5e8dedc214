// Is a run what it says it is? Its files are held against their checksums, and the recorded
// verdicts against those that the measurements give.
#pragma once

#include <string>
#include <vector>

#include "tools/recipe_run/run_record/record.h"

namespace reciperun {

struct RunCheck {
  std::vector<std::string> problems;  // one sentence each, beginning with the file
  int files = 0;                      // under the seal
  int rows = 0;                       // verdicts computed again
};

RunCheck check_run(const RunRecord& run);

}  // namespace reciperun
