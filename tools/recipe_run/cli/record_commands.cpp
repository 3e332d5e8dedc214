// Commands about runs that are there: report, compare, verify.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "tools/recipe_run/cli/commands.h"
#include "tools/recipe_run/cli/output.h"
#include "tools/recipe_run/record/seal.h"
#include "tools/recipe_run/report/comparison.h"
#include "tools/recipe_run/report/report.h"
#include "tools/recipe_run/util/error.h"

namespace reciperun {
namespace {

fs::path find_run_folder(const fs::path& runs, const std::string& run) {
  std::error_code ignored;
  for (const fs::path& candidate : {fs::path(run), runs / run}) {
    if (!run.empty() && fs::exists(candidate / "run.json", ignored)) return candidate;
  }
  require(run.empty(), fmt::format("there is no run '{}' here or below '{}'", run, runs.string()));
  fs::path newest;
  for (const auto& entry : fs::directory_iterator(runs, ignored)) {
    if (fs::exists(entry.path() / "run.json", ignored)) newest = std::max(newest, entry.path());
  }
  require(!newest.empty(), "there is no run below '" + runs.string() + "'",
          "'recipe-run run RECIPE' makes one");
  return newest;
}

// Refuses an edited run; says on stderr of one that is not sealed that it is so.
RunRecord open_intact(const fs::path& runs, const std::string& run) {
  RunRecord record = RunRecord::open(find_run_folder(runs, run));
  record.require_intact();
  if (!record.is_running() && record.is_sealed()) return record;
  std::fprintf(stderr, "note: %s\n",
               record.is_running() ? "this run is running or was killed: not sealed, not complete"
                                   : "this run is of a version that did not seal its files");
  return record;
}

// A run, or a report.json alone.
Side read_side(const fs::path& runs, const std::string& name) {
  std::error_code ignored;
  return fs::is_regular_file(name, ignored) ? side_of_report(name)
                                            : side_of(open_intact(runs, name));
}

// Prints the document in one of the formats for programs, else what is for people.
template <class T>
void print_as(const std::string& format, const T& what,
              const std::map<std::string, std::string (*)(const T&)>& formats,
              std::string (*for_people)(const T&, int)) {
  const auto wanted = formats.find(format);
  if (wanted != formats.end()) {
    print_document(wanted->second(what));
  } else {
    print(for_people(what, output_columns()));
  }
}

std::string counted(int n, const std::string& thing) {
  return fmt::format("{} {}{}", n, thing, n == 1 ? "" : "s");
}

}  // namespace

Exit report_command(const ReportArguments& arguments) {
  const RunRecord record = open_intact(arguments.runs, arguments.run);
  ReportOptions options{arguments.require, arguments.tight, {}};
  for (const std::string& other : arguments.with)
    options.with.push_back(other_run(open_intact(arguments.runs, other)));
  const Report report = make_report(record, std::move(options));
  print_as<Report>(arguments.format, report,
                   {{"markdown", markdown_report},
                    {"json", json_report},
                    {"html", html_report},
                    {"junit", junit_report}},
                   console_report);
  // The files beside a run are those of its own measurements and the usual margins.
  if (arguments.format == "all" && arguments.with.empty() && !arguments.tight)
    print(fmt::format("\nwritten to {}\n", write_reports(record, report).string()));
  return report.exit;
}

Exit compare_command(const CompareArguments& arguments) {
  Side first = read_side(arguments.runs, arguments.first);
  Side second = read_side(arguments.runs, arguments.second);
  require(first.run.id() != second.run.id(), "both sides are the run " + first.run.id(),
          "name two different runs");
  const Comparison comparison = compare_runs(std::move(first), std::move(second),
                                             {arguments.despite_differences, arguments.all_rows});
  print_as<Comparison>(arguments.format, comparison,
                       {{"markdown", markdown_comparison},
                        {"html", html_comparison},
                        {"json", json_comparison},
                        {"junit", junit_comparison}},
                       console_comparison);
  return comparison.exit;
}

Exit verify_command(const std::string& runs, const std::string& run) {
  const RunRecord record = RunRecord::open(find_run_folder(runs, run));
  const RunCheck check = check_run(record);
  std::string text =
      fmt::format("run {}\n  files     {} held against SHA256SUMS\n  verdicts  {} computed again\n",
                  record.info().id(), counted(check.files, "file"), counted(check.rows, "row"));
  for (const std::string& problem : check.problems) text += "DIFFERS     " + problem + "\n";
  const bool same = check.problems.empty();
  if (same && record.is_running()) {
    text += fmt::format(
        "not sealed: the run is running or was killed; 'recipe-run run {}' continues it\n",
        record.info().recipe());
  } else if (same) {
    text += fmt::format("all as recorded; SHA-256 of the seal {}\n",
                        sha256_of_file(record.folder() / kSealFile));
  }
  print(text);
  return !same ? Exit::kTampered : record.is_running() ? Exit::kInterrupted : Exit::kOk;
}

}  // namespace reciperun
