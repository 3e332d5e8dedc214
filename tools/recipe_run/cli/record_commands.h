// The commands about runs that are there: report, verify, export.
#pragma once

#include <string>
#include <vector>

#include "tools/recipe_run/run_record/record.h"

namespace reciperun {

// `run` everywhere: a folder, a run's id below `runs`, or "" for the newest run.

// Error kUsage if there is none.
fs::path find_run_folder(const fs::path& runs, const std::string& run);

// Refuses an edited run (Exit::kTampered); says on stderr of one that is not sealed that it is so.
void require_readable(const RunRecord& record);

// Refuses a run whose files were changed (Exit::kTampered).
struct ReportArguments {
  std::string runs = "runs";
  std::string run;
  std::string format = "all";     // which writes files beside the run
  std::vector<std::string> with;  // runs of other recipes
  bool tight = false;
  bool require = false;
};
int report_command(const ReportArguments& arguments);

struct CompareArguments {
  std::string runs = "runs";
  std::string first;  // also the file of a report.json
  std::string second;
  std::string format = "text";
  bool despite_differences = false;
  bool all_rows = false;
};
// Two runs against each other (compare/comparison.h); the exit code is that of their rows.
int compare_command(const CompareArguments& arguments);

// Prints what was compared, and every difference. Returns kTampered if there is one, kInterrupted
// if the run is not closed and so not sealed.
int verify_command(const std::string& runs, const std::string& run);

}  // namespace reciperun
