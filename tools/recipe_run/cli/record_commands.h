// The commands about runs that are there: report, verify, export.
#pragma once

#include <string>

namespace reciperun {

// `run` everywhere: a folder, a run's id below `runs`, or "" for the newest run.

// Refuses a run whose files were changed (Exit::kTampered).
int report_command(const std::string& runs, const std::string& run, const std::string& format,
                   bool require);

// Writes a run in another tool's format (export/export.h) and prints the files' names. Refuses a
// run whose files were changed.
int export_command(const std::string& runs, const std::string& run, const std::string& format);

// Prints what was compared, and every difference. Returns kTampered if there is one, kInterrupted
// if the run is not closed and so not sealed.
int verify_command(const std::string& runs, const std::string& run);

}  // namespace reciperun
