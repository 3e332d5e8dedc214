// One call of `run`: which record it continues, what is left to do, in which order it is done.
#include "tools/recipe_run/run/runner.h"

#include <fmt/core.h>

#include <algorithm>

#include "tools/recipe_run/judge/rows.h"
#include "tools/recipe_run/recipe/facts.h"
#include "tools/recipe_run/record/machine.h"
#include "tools/recipe_run/run/bench_runner.h"
#include "tools/recipe_run/run/trial_runner.h"
#include "tools/recipe_run/stats/looks.h"
#include "tools/recipe_run/util/error.h"
#include "tools/recipe_run/util/json.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

RunRecord open_or_create(const ResolvedRecipe& resolved, const RunOptions& options,
                         TrainerDriver& driver, Progress& progress, bool& checked) {
  std::vector<std::string> skipped;
  const std::optional<fs::path> found =
      options.fresh ? std::nullopt : find_run(options.runs, resolved, options.place, skipped);
  for (const std::string& why : skipped) progress.note("skipped: " + why);
  record::Machine machine = capture_machine();
  machine.set_gpu(driver.info().gpu);
  machine.set_gpu_libraries(driver.info().libraries);
  if (!found) {
    driver.check(resolved.recipe);  // first, so that what cannot run leaves no folder behind
    checked = true;
    return RunRecord::create(options.runs, resolved, machine, driver.info().engine, options.place);
  }
  RunRecord run = RunRecord::open(*found);
  run.require_intact();
  run.begin_changes();
  remove_unfinished(run.folder());
  run.refresh(resolved);
  if (run.info().machine() != machine_digest(machine)) {
    write_json(run.folder() / "env" / ("machine-" + utc_now() + ".json"), machine);
    progress.note("note: this run began on another machine (" + run.info().device() +
                  "); timings mix both");
  }
  return run;
}

// Trains those of the first `count` trials that lack a result.
void run_trials(const RunRecord& run, const ResolvedRecipe& resolved, uint32_t count,
                const RunOptions& options, TrainerDriver& driver, Progress& progress,
                std::atomic<bool>& stop) {
  const std::vector<uint64_t> seeds = trial_seeds(resolved.recipe.trials(), count);
  for (size_t i = 0; i < seeds.size(); ++i) {
    if (stop.load())
      throw Error(Exit::kInterrupted, "stopped before " + trial_title(resolved.recipe, seeds[i]));
    const std::string title = fmt::format("trial {} of {} ({})", i + 1, seeds.size(),
                                          trial_title(resolved.recipe, seeds[i]));
    const TrialJob job{resolved.recipe,
                       resolved.exec_digest,
                       seeds[i],
                       run.trial_folder(seeds[i]),
                       title,
                       stop,
                       options.checkpoint_seconds,
                       options.tensorboard};
    run_trial(job, driver, progress);
  }
}

uint32_t finished_trials(const RunRecord& run) {
  return static_cast<uint32_t>(run.measurements().trials.size());
}

// A row that more trials could decide, or "".
std::string undecided_row(const RunRecord& run) {
  for (const Row& row : make_rows(run.recipe(), run.measurements())) {
    if (row.judgement.more_runs_help) return row.id;
  }
  return "";
}

// Trains `count` trials, and with `top_up` the further looks of the plan while a row is undecided.
// Every look at the results is recorded: it spends part of the error that all of them share.
void run_looks(RunRecord& run, const ResolvedRecipe& resolved, const RunOptions& options,
               TrainerDriver& driver, Progress& progress, std::atomic<bool>& stop) {
  const v1::Trials& trials = resolved.recipe.trials();
  for (const uint32_t count : trial_looks(resolved.recipe)) {
    run_trials(run, resolved, count, options, driver, progress, stop);
    if (finished_trials(run) == count) run.add_look(count);  // else a later look was made already
    const std::string undecided = options.top_up ? undecided_row(run) : "";
    if (undecided.empty()) return;
    if (count < trials.max_count())
      progress.note(
          fmt::format("row '{}' is undecided after {} trials: topping up", undecided, count));
  }
}

// Whether any trial or bench has still to be run, so that nothing slow is checked or built for a
// mere report.
bool has_work(const RunRecord& run, const RunOptions& options, uint32_t devices) {
  const v1::Trials& trials = run.recipe().trials();
  const std::vector<uint64_t> seeds = trial_seeds(trials, trials.count());
  const bool trained =
      std::all_of(seeds.begin(), seeds.end(), [&](uint64_t seed) { return run.has_result(seed); });
  if (options.benches && !open_bench_tasks(run, devices).empty()) return true;
  if (!options.trials) return false;
  return !trained || (options.top_up && finished_trials(run) < trials.max_count() &&
                      !undecided_row(run).empty());
}

// The last checkpoint of some trial, "" if there is none.
fs::path any_checkpoint(const RunRecord& run) {
  for (const uint64_t seed : trial_seeds(run.recipe().trials(), run.recipe().trials().count())) {
    const fs::path checkpoint = run.checkpoint_of(seed);
    if (!checkpoint.empty()) return checkpoint;
  }
  return {};
}

// Failures that stand in the record, those of earlier calls too: they count until a new run.
std::vector<std::string> recorded_failures(const RunRecord& run) {
  const Measurements measured = run.measurements();
  std::vector<std::string> out;
  for (const Trial& trial : measured.trials) {
    if (!trial.failure.empty()) out.push_back(trial.title + " failed: " + trial.failure);
  }
  for (const BenchResult& bench : measured.benches) {
    if (!bench.failure.empty())
      out.push_back(
          fmt::format("bench {}, batch {} failed: {}", bench.bench, bench.batch, bench.failure));
  }
  return out;
}

RunOutcome closed(RunRecord& run, const std::vector<std::string>& failures) {
  run.close(failures.empty() ? "finished" : "failed");
  return {run.folder(), failures.empty() ? Exit::kOk : Exit::kCrashed};
}

}  // namespace

RunOutcome run_recipe(const ResolvedRecipe& resolved, const RunOptions& asked,
                      TrainerDriver& driver, Progress& progress, std::atomic<bool>& stop) {
  require_concrete(resolved);
  const fs::path runs = asked.runs;
  create_folders(runs);
  const FileLock lock(runs / ".lock", "'" + runs.string() + "'");
  RunOptions options = asked;
  if (options.place.emulated_devices > 0) {
    options.benches = false;  // what one device plays is not timed as if it were several
    driver.emulate(resolved.recipe, options.place.emulated_devices);
  }
  const uint32_t devices = driver.info().devices;
  bool checked = false;
  RunRecord run = open_or_create(resolved, options, driver, progress, checked);
  if (!has_work(run, options, devices)) {
    const std::vector<std::string> failures = recorded_failures(run);
    for (const std::string& failure : failures) progress.note(failure);
    return closed(run, failures);
  }
  try {
    if (!checked) driver.check(resolved.recipe);
    progress.note("run " + run.info().id());
    if (options.trials) run_looks(run, resolved, options, driver, progress, stop);
    if (options.benches) {
      const fs::path checkpoint = any_checkpoint(run);
      const MeasureRepeat here = [&](const BenchTask& task, const Tick& tick) {
        measure_repeat(run, task, checkpoint, driver, stop, tick);
      };
      const fs::path& program = options.measuring_program;
      run_benches(open_bench_tasks(run, devices),
                  program.empty() ? here : in_own_process(program, run, checkpoint, stop), stop,
                  progress);
    }
  } catch (const Error& error) {
    try {
      run.close(error.exit_code() == Exit::kInterrupted ? "interrupted" : "failed");
    } catch (const Error&) {  // a full disk stops this too; the first failure is the one to tell
    }
    throw;
  }
  return closed(run, recorded_failures(run));
}

}  // namespace reciperun
