#include "tools/recipe_run/cli/record_commands.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/sha256.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/cli/output.h"
#include "tools/recipe_run/report/junit.h"
#include "tools/recipe_run/report/report.h"
#include "tools/recipe_run/report/run_check.h"
#include "tools/recipe_run/run_record/record.h"
#include "tools/recipe_run/run_record/seal.h"

namespace reciperun {
namespace {

std::string counted(int n, const std::string& thing) {
  return std::to_string(n) + " " + thing + (n == 1 ? "" : "s");
}

}  // namespace

fs::path find_run_folder(const fs::path& runs, const std::string& run) {
  std::error_code ignored;
  if (!run.empty()) {
    for (const fs::path& candidate : {fs::path(run), runs / run}) {
      if (fs::exists(candidate / "run.json", ignored)) return candidate;
    }
    throw Error(Exit::kUsage,
                "there is no run '" + run + "' here or below '" + runs.string() + "'");
  }
  fs::path newest;
  for (const auto& entry : fs::directory_iterator(runs, ignored)) {
    if (fs::exists(entry.path() / "run.json", ignored)) newest = std::max(newest, entry.path());
  }
  if (newest.empty()) {
    throw Error(Exit::kUsage, "there is no run below '" + runs.string() + "'",
                "'recipe-run run RECIPE' makes one");
  }
  return newest;
}

void require_readable(const RunRecord& record) {
  record.require_intact();
  if (!record.is_running() && record.is_sealed()) return;
  std::fprintf(stderr, "note: %s\n",
               record.is_running() ? "this run is running or was killed: not sealed, not complete"
                                   : "this run is of a version that did not seal its files");
}

int report_command(const ReportArguments& arguments) {
  const RunRecord record = RunRecord::open(find_run_folder(arguments.runs, arguments.run));
  require_readable(record);
  ReportOptions options{arguments.require, arguments.tight, {}};
  for (const std::string& other : arguments.with) {
    const RunRecord run = RunRecord::open(find_run_folder(arguments.runs, other));
    require_readable(run);
    options.with.push_back(other_run(run));
  }
  const Report report = make_report(record, std::move(options));
  // The files beside a run are those of its own measurements and the usual margins.
  const bool own = arguments.with.empty() && !arguments.tight;
  const std::string format = arguments.format == "all" && !own ? "text" : arguments.format;
  static const std::map<std::string, std::string (*)(const Report&)> kDocuments = {
      {"markdown", markdown_report},
      {"json", json_report},
      {"html", html_report},
      {"junit", junit_xml}};
  const auto document = kDocuments.find(format);
  if (document != kDocuments.end()) print_document(document->second(report));
  if (document == kDocuments.end()) print(console_report(report, output_columns()));
  if (format == "all") print("\nwritten to " + write_reports(record, report).string() + "\n");
  return static_cast<int>(report.exit);
}

int verify_command(const std::string& runs, const std::string& run) {
  const RunRecord record = RunRecord::open(find_run_folder(runs, run));
  const RunCheck check = check_run(record);
  print("run " + record.info().id() + "\n");
  print("  files     " + counted(check.files, "file") + " held against SHA256SUMS\n");
  print("  verdicts  " + counted(check.rows, "row") + " computed again\n");
  for (const std::string& problem : check.problems) print("DIFFERS     " + problem + "\n");
  if (!check.problems.empty()) return static_cast<int>(Exit::kTampered);
  if (record.is_running()) {
    print("not sealed: the run is running or was killed; 'recipe-run run " +
          record.info().recipe() + "' continues it\n");
    return static_cast<int>(Exit::kInterrupted);
  }
  print("all as recorded; SHA-256 of the seal " + sha256_of_file(record.folder() / kSealFile) +
        "\n");
  return 0;
}

}  // namespace reciperun
