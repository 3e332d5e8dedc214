// `recipe-run run`: signals, progress, and what is printed at the end.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>

#include "tools/recipe_run/cli/commands.h"
#include "tools/recipe_run/cli/output.h"
#include "tools/recipe_run/judge/published.h"
#include "tools/recipe_run/recipe/data_lock.h"
#include "tools/recipe_run/recipe/load.h"
#include "tools/recipe_run/recipe/sources.h"
#include "tools/recipe_run/report/report.h"
#include "tools/recipe_run/run/smoke.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

// Says of every row that it was not run, and why.
Exit report_not_run(const v1::Recipe& recipe, const std::string& why) {
  std::string text = (recipe.title().empty() ? recipe.id() : recipe.title()) + "\n\n";
  for (const v1::Expect& expect : recipe.expect()) {
    text += fmt::format("  {}  {} {}  NOT RUN\n", pad_right(expect.id(), 24),
                        pad_right(published_text(expect), 16), pad_right(expect.unit(), 6));
  }
  print(fmt::format("{}\nNOT RUN: {}\n", text, why));
  return Exit::kNotRun;
}

// What the options change of the recipe. `--seeds`: so many trials, and no lower limit for the
// top-up than before.
std::vector<std::string> all_sets(const RecipeFile& file, const RunArguments& arguments) {
  std::vector<std::string> sets = arguments.sets;
  if (arguments.seeds > 0) {
    const uint32_t limit = load_recipe(file, sets).recipe.trials().max_count();
    sets.push_back(fmt::format("trials.count={}", arguments.seeds));
    if (limit > 0 && arguments.seeds > limit)
      sets.push_back(fmt::format("trials.max_count={}", arguments.seeds));
  }
  return sets;
}

}  // namespace

Exit run_command(const fs::path& root, const RunArguments& arguments,
                 const DriverFactory& make_driver) {
  const RecipeFile file = locate_recipe(root, arguments.recipe);
  std::vector<std::string> sets = all_sets(file, arguments);
  ResolvedRecipe resolved = load_recipe(file, sets);
  const v1::Recipe& recipe = resolved.recipe;
  require_concrete(resolved);
  require_sources(resolved, file.root);
  RunOptions options = arguments.options;
  const auto driver = make_driver(options.place.device, recipe.io().threads());
  if (arguments.smoke) {
    const uint32_t devices =
        std::max(driver->info().devices, options.place.emulated_devices);  // ranks, or played
    std::ranges::move(smoke_sets(recipe, options.place.device, devices), std::back_inserter(sets));
    resolved = load_recipe(file, sets);
  }
  const std::string modified = resolved.modified_reason();
  // A recipe that the user changed is checked in full: what is wrong may be the change.
  const std::string why_not = why_not_here(resolved, options.place.emulated_devices, *driver);
  if (!why_not.empty() && modified.empty()) return report_not_run(recipe, why_not);
  if (const std::string missing = driver->missing_data(recipe); !missing.empty())
    return report_not_run(recipe, missing);
  options.place.data = content_digests(
      recipe, [&](const fs::path& folder) { return driver->describe_data(folder); });
  // Whoever changes the recipe may also bring other data: its rows are NOT COMPARABLE anyway.
  if (modified.empty()) require_locked_data(resolved.data_lock, recipe, options.place.data);
  std::atomic<bool>& stop = stop_on_signals();  // mpirun hands them to all: the first rank decides
  if (!driver->conducts(recipe, arguments.rank_timeout)) return Exit::kOk;
  Progress progress(stderr, isatty(STDERR_FILENO) != 0, arguments.quiet);
  if (!modified.empty())
    progress.note(fmt::format("published rows will be NOT COMPARABLE ({})", modified));
  const bool trains = recipe.trials().count() > 0;
  const uint32_t ranks = driver->info().devices;
  if (ranks > 1) {
    options.measuring_program.clear();        // a process that this one starts would be no rank
    if (trains) options.place.ranks = ranks;  // timings say for themselves on how many
  }
  options.benches = !arguments.no_bench && !(arguments.smoke && trains);
  options.trials = !arguments.bench_only && trains;
  const RunOutcome outcome = run_recipe(resolved, options, *driver, progress, stop);
  RunRecord record = RunRecord::open(outcome.folder);
  const Report report = make_report(record, {.require_all = arguments.require});
  const fs::path folder = write_reports(record, report);
  record.close(record.info().status(), result_index(report));
  print(fmt::format(
      "\n{}\nreport: {}\n",
      arguments.smoke ? smoke_line(report) : console_text(document_of(report), output_columns()),
      (folder / "report.html").string()));
  return more_urgent(outcome.exit, report.exit);
}

Exit bench_repeat_command(const std::string& folder, const BenchTask& task,
                          const std::string& checkpoint, const DriverFactory& make_driver) {
  const RunRecord record = RunRecord::open(folder);
  const auto driver = make_driver(record.place().device, record.recipe().io().threads());
  const std::atomic<bool> never{
      false};  // a signal ends this process; its repeat has no result then
  measure_repeat(record, task, checkpoint, *driver, never, [](double) { return true; });
  return Exit::kOk;
}

}  // namespace reciperun
