// A report is computed from what was measured and what was published, never from stored verdicts.
#pragma once

#include <string>
#include <vector>

#include "tools/recipe_run/judge/rows.h"
#include "tools/recipe_run/record/run_folder.h"
#include "tools/recipe_run/report/document.h"
#include "tools/recipe_run/report/report.pb.h"

namespace reciperun {

// A picture that a trial left behind.
struct TrialPicture {
  std::string folder;  // of the trial: "seed-0001"
  std::string trial;   // for people: "seed 1", "fold 1 of 5, seed 0"
  std::string name;    // of the file
  std::string png;     // its bytes
  size_t others = 0;   // further pictures in the same folder, behind the last that is shown
};
// The first `most` of each of the trials of the run in `folder`, as far as it left any.
std::vector<TrialPicture> trial_pictures(const fs::path& folder, const std::vector<Trial>& trials,
                                         size_t most);

// How a detector's trial found objects.
struct TrialDetections {
  std::string trial;  // for people
  record::DetectionScores scores;
};
std::vector<TrialDetections> trial_detections(const fs::path& folder,
                                              const std::vector<Trial>& trials);

struct Report {
  v1::Recipe recipe;
  record::Run run;
  Measurements measurements;
  std::vector<Row> rows;
  Exit exit = Exit::kOk;  // of the required rows
  std::vector<TrialPicture> pictures;
  std::vector<TrialDetections> detections;
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
// One line per deviation from the source.
std::vector<std::string> deviation_lines(const v1::Recipe& recipe);

Document document_of(const Report& report);
std::string json_report(const Report& report);

// The verdicts, for run.json: a closed run has them if its report/ is that of its measurements.
std::vector<record::Result> result_index(const Report& report);

// Writes report/report.{txt,md,json,html} below the run's folder; returns the folder.
fs::path write_reports(const RunRecord& run, const Report& report);

// Is a run what it says it is? Its files are held against their checksums, and the recorded
// verdicts against those that the measurements give.
struct RunCheck {
  std::vector<std::string> problems;  // one sentence each, beginning with the file
  int files = 0;                      // under the seal
  int rows = 0;                       // verdicts computed again
};
RunCheck check_run(const RunRecord& run);

json::Row json_row(const Row& row);
// The row of a report.json as far as another run's is held against it: names, values, statistic and
// tolerance. Fails (Exit::kUsage) if it lacks one of them.
Row row_of_json(const json::Row& row);

}  // namespace reciperun
