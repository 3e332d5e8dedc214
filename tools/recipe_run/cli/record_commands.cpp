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
    if (!run.empty() && is_there(candidate / "run.json")) return candidate;
  }
  require(run.empty(), fmt::format("there is no run '{}' here or below '{}'", run, runs.string()));
  fs::path newest;
  for (const auto& entry : fs::directory_iterator(runs, ignored)) {
    if (is_there(entry.path() / "run.json")) newest = std::max(newest, entry.path());
  }
  require(!newest.empty(), "there is no run below '" + runs.string() + "'",
          "'recipe-run run RECIPE' makes one");
  return newest;
}

// Refuses an edited run; says on stderr of one that is not sealed yet that it is so.
RunRecord open_intact(const fs::path& runs, const std::string& run) {
  RunRecord record = RunRecord::open(find_run_folder(runs, run));
  record.require_intact();
  if (record.is_running())
    std::fputs("note: this run is running or was killed: not sealed, not complete\n", stderr);
  return record;
}

// A run, or a report.json alone.
Side read_side(const fs::path& runs, const std::string& name) {
  std::error_code ignored;
  return fs::is_regular_file(name, ignored) ? side_of_report(name)
                                            : side_of(open_intact(runs, name));
}

// What is for people is folded at the terminal's width, what is for programs is not.
void print_as(const std::string& format, const Document& document, const std::string& json) {
  if (format == "json") return print_document(json);
  if (format == "markdown") return print_document(markdown_text(document));
  if (format == "html") return print_document(html_text(document));
  if (format == "junit") return print_document(junit_text(document));
  print(console_text(document, output_columns()));
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
  print_as(arguments.format, document_of(report), json_report(report));
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
  print_as(arguments.format, document_of(comparison), json_comparison(comparison));
  return comparison.exit;
}

Exit verify_command(const std::string& runs, const std::string& run) {
  const RunRecord record = RunRecord::open(find_run_folder(runs, run));
  const RunCheck check = check_run(record);
  const bool sealed = is_there(record.folder() / kSealFile);
  std::string text = fmt::format("run {}\n  files     {}{}\n  verdicts  {} computed again\n",
                                 record.info().id(), counted(check.files, "file"),
                                 sealed ? fmt::format(" held against {}", kSealFile)
                                        : fmt::format("; there is no {}", kSealFile),
                                 counted(check.rows, "row"));
  for (const std::string& problem : check.problems) text += "DIFFERS     " + problem + "\n";
  const bool same = check.problems.empty();
  if (same && record.is_running()) {
    text += fmt::format(
        "not sealed: the run is running or was killed; 'recipe-run run {}' continues it\n",
        record.info().recipe());
  } else if (same) {
    text += fmt::format(
        "all as recorded; SHA-256 of the seal {}\n"
        "report/ has no seal: 'recipe-run report {}' computes it again\n",
        sha256_of_file(record.folder() / kSealFile), record.folder().string());
  }
  print(text);
  return !same ? Exit::kTampered : record.is_running() ? Exit::kInterrupted : Exit::kOk;
}

}  // namespace reciperun
