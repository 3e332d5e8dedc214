// `recipe-run run`: signals, progress, and what is printed at the end.
#include <fmt/core.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/cli/commands.h"
#include "tools/recipe_run/cli/model_check.h"
#include "tools/recipe_run/cli/output.h"
#include "tools/recipe_run/cli/signals.h"
#include "tools/recipe_run/judge/published.h"
#include "tools/recipe_run/recipe/data_lock.h"
#include "tools/recipe_run/recipe/load.h"
#include "tools/recipe_run/report/report.h"
#include "tools/recipe_run/run/runner.h"
#include "tools/recipe_run/run/smoke.h"
#include "tools/recipe_run/sources/verify.h"

namespace reciperun {
namespace {

// Says of every row that it was not run, and why.
int report_not_run(const v1::Recipe& recipe, const std::string& why) {
  std::string text = (recipe.title().empty() ? recipe.id() : recipe.title()) + "\n\n";
  for (const v1::Expect& expect : recipe.expect()) {
    text += "  " + pad_right(expect.id(), 24) + "  " + pad_right(published_text(expect), 16) + " " +
            pad_right(expect.unit(), 6) + "  NOT RUN\n";
  }
  text += "\nNOT RUN: " + why + "\n";
  print(text);
  return static_cast<int>(Exit::kNotRun);
}

// What the options change of the recipe. `--seeds`: so many trials, and no lower limit for the
// top-up than before.
std::vector<std::string> all_sets(const RecipeFile& file, const RunArguments& arguments) {
  std::vector<std::string> sets = arguments.sets;
  if (arguments.seeds > 0) {
    const uint32_t limit = load_recipe(file, sets).recipe.trials().max_count();
    sets.push_back("trials.count=" + std::to_string(arguments.seeds));
    if (limit > 0 && arguments.seeds > limit)
      sets.push_back("trials.max_count=" + std::to_string(arguments.seeds));
  }
  if (!arguments.smoke) return sets;
  const std::vector<std::string> smoke =
      smoke_sets(load_recipe(file, sets).recipe, arguments.device);
  sets.insert(sets.end(), smoke.begin(), smoke.end());
  return sets;
}

}  // namespace

int run_command(const fs::path& root, const RunArguments& arguments,
                const DriverFactory& make_driver) {
  const RecipeFile file = locate_recipe(root, arguments.recipe);
  const ResolvedRecipe resolved = load_recipe(file, all_sets(file, arguments));
  require_concrete(resolved);
  require_sources(resolved, file.root);
  const auto driver = make_driver({resolved.recipe.io().threads(), arguments.device});
  // A recipe that the user changed is checked in full: what is wrong may be the change.
  const std::string why_not = why_not_here(resolved, arguments.emulate_devices, *driver);
  if (!why_not.empty() && resolved.modified_reason().empty())
    return report_not_run(resolved.recipe, why_not);
  if (const std::string missing = driver->missing_data(resolved.recipe); !missing.empty())
    return report_not_run(resolved.recipe, missing);
  // Whoever changes the recipe may also bring other data: its rows are NOT COMPARABLE anyway.
  if (resolved.modified_reason().empty()) {
    require_locked_data(resolved.data_lock, resolved.recipe,
                        [&](const fs::path& folder) { return driver->describe_data(folder); });
  }
  Progress progress(stderr, isatty(STDERR_FILENO) != 0, arguments.quiet);
  if (!resolved.modified_reason().empty()) {
    progress.note("published rows will be NOT COMPARABLE (" + resolved.modified_reason() + ")");
  }
  RunOptions options;
  options.runs = arguments.runs;
  options.fresh = arguments.fresh;
  const bool trains = resolved.recipe.trials().count() > 0;
  options.benches = !arguments.no_bench && !(arguments.smoke && trains);
  options.trials = !arguments.bench_only && trains;
  options.top_up = arguments.top_up;
  options.place = {arguments.device, arguments.emulate_devices};
  options.measuring_program = arguments.measuring_program;
  const RunOutcome outcome = run_recipe(resolved, options, *driver, progress, stop_on_signals());
  RunRecord record = RunRecord::open(outcome.folder);
  const Report report = make_report(record, {.require_all = arguments.require});
  const fs::path folder = write_reports(record, report);
  record.close(record.info().status(), result_index(report));
  print(fmt::format("\n{}\nreport: {}\n",
                    arguments.smoke ? smoke_line(report) : console_report(report, output_columns()),
                    (folder / "report.html").string()));
  return static_cast<int>(more_urgent(outcome.exit, report.exit));
}

int bench_repeat_command(const RepeatArguments& arguments, const DriverFactory& make_driver) {
  const RunRecord record = RunRecord::open(arguments.folder);
  const auto driver = make_driver({record.recipe().io().threads(), record.place().device});
  const std::atomic<bool> never{
      false};  // a signal ends this process; its repeat has no result then
  measure_repeat(record, arguments.task, arguments.checkpoint, *driver, never,
                 [](double) { return true; });
  return 0;
}

}  // namespace reciperun
