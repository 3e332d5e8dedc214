// `recipe-run compare`.
#include <map>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/cli/output.h"
#include "tools/recipe_run/cli/record_commands.h"
#include "tools/recipe_run/report/comparison.h"

namespace reciperun {
namespace {

// A run, or a report.json alone.
Side read_side(const fs::path& runs, const std::string& name) {
  std::error_code ignored;
  if (fs::is_regular_file(name, ignored)) return side_of_report(name);
  const RunRecord record = RunRecord::open(find_run_folder(runs, name));
  require_readable(record);
  return side_of(record);
}

}  // namespace

int compare_command(const CompareArguments& arguments) {
  Side first = read_side(arguments.runs, arguments.first);
  Side second = read_side(arguments.runs, arguments.second);
  if (first.run == second.run)
    throw Error(Exit::kUsage, "both sides are the run " + first.run, "name two different runs");
  const Comparison comparison = compare_runs(std::move(first), std::move(second),
                                             {arguments.despite_differences, arguments.all_rows});
  static const std::map<std::string, std::string (*)(const Comparison&)> kDocuments = {
      {"markdown", markdown_comparison},
      {"html", html_comparison},
      {"json", json_comparison},
      {"junit", junit_comparison}};
  const auto document = kDocuments.find(arguments.format);
  if (document != kDocuments.end()) print_document(document->second(comparison));
  if (document == kDocuments.end()) print(console_comparison(comparison, output_columns()));
  return static_cast<int>(comparison.exit);
}

}  // namespace reciperun
