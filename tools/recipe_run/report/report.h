// A report is computed from what was measured and what was published, never from stored verdicts.
#pragma once

#include <string>
#include <vector>

#include "tools/recipe_run/judge/rows.h"
#include "tools/recipe_run/report/pictures.h"
#include "tools/recipe_run/report/tables.h"
#include "tools/recipe_run/run_record/record.h"

namespace reciperun {

struct Report {
  v1::Recipe recipe;
  record::Run run;
  Measurements measurements;
  std::vector<Row> rows;
  Exit exit = Exit::kOk;  // of the required rows
  std::vector<TrialPicture> pictures;
};

struct ReportOptions {
  bool require_all = false;    // rows not run count for the exit code, too
  bool tight = false;          // Measurements::tight
  std::vector<OtherRun> with;  // runs of other recipes, for rows that need them
};
Report make_report(const RunRecord& run, ReportOptions options = {});

// A run as another one's report needs it.
OtherRun other_run(const RunRecord& run);

// "3 of 3 trials finished · required rows: 1 REPRODUCED, 1 WITHIN TOLERANCE".
std::string summary_line(const Report& report);
// The answer of a smoke run: "It trains: 4 steps, loss 2.302 to 2.295, and it was evaluated.".
std::string smoke_line(const Report& report);

// One line per value of the recipe that was changed for this run, other than the free ones.
std::vector<std::string> change_lines(const record::Run& run);

// One line per deviation from the source.
std::vector<std::string> deviation_lines(const v1::Recipe& recipe);

// `columns` of the terminal; 0: lines of any length.
std::string console_report(const Report& report, int columns = 0);
std::string markdown_report(const Report& report);
std::string json_report(const Report& report);
std::string html_report(const Report& report);

// The verdicts, for run.json: a closed run has them if its report/ is that of its measurements.
std::vector<record::Result> result_index(const Report& report);

struct ReportFile {
  const char* name;
  std::string (*render)(const Report&);
};
std::vector<ReportFile> report_files();

// Writes report/report.{txt,md,json,html} below the run's folder; returns the folder.
fs::path write_reports(const RunRecord& run, const Report& report);

}  // namespace reciperun
