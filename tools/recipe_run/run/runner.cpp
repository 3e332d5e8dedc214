#include "tools/recipe_run/run/runner.h"

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/run/bench_runner.h"
#include "tools/recipe_run/run/trial_runner.h"
#include "tools/recipe_run/run_record/json_file.h"
#include "tools/recipe_run/run_record/machine.h"

namespace reciperun {
namespace {

RunRecord open_or_create(const ResolvedRecipe& resolved, const RunOptions& options,
                         TrainerDriver& driver, Progress& progress, bool& checked) {
  std::vector<std::string> skipped;
  const std::optional<fs::path> found =
      options.fresh ? std::nullopt : find_run(options.runs, resolved, skipped);
  for (const std::string& why : skipped) progress.note("skipped: " + why);
  const record::Machine machine = capture_machine();
  if (!found) {
    driver.check(resolved.recipe);  // first, so that what cannot run leaves no folder behind
    checked = true;
    return RunRecord::create(options.runs, resolved, machine, driver.info().engine);
  }
  RunRecord run = RunRecord::open(*found);
  remove_unfinished(run.folder());
  run.refresh(resolved);
  if (run.info().machine() != machine_digest(machine)) {
    write_json(run.folder() / "env" / ("machine-" + utc_now() + ".json"), machine);
    progress.note("note: this run began on another machine (" + run.info().device() +
                  "); timings mix both");
  }
  return run;
}

// Trains the trials that lack a result.
void run_trials(const RunRecord& run, const ResolvedRecipe& resolved, const RunOptions& options,
                TrainerDriver& driver, Progress& progress, std::atomic<bool>& stop) {
  const v1::Trials& trials = resolved.recipe.trials();
  const std::vector<uint64_t> seeds = trial_seeds(trials, trials.count());
  for (size_t i = 0; i < seeds.size(); ++i) {
    if (stop.load()) throw Error(Exit::kInterrupted, "stopped before " + trial_name(seeds[i]));
    const std::string title =
        "trial " + std::to_string(i + 1) + " of " + std::to_string(seeds.size());
    const TrialJob job{resolved.recipe,
                       resolved.exec_digest,
                       seeds[i],
                       run.trial_folder(seeds[i]),
                       title,
                       stop,
                       options.checkpoint_seconds};
    run_trial(job, driver, progress);
  }
}

// Whether any trial or bench has still to be run, so that nothing slow is checked or built for a
// mere report.
bool has_work(const RunRecord& run, const ResolvedRecipe& resolved, const RunOptions& options) {
  std::error_code ignored;
  for (const uint64_t seed :
       trial_seeds(resolved.recipe.trials(), resolved.recipe.trials().count())) {
    if (options.trials && !fs::exists(run.trial_folder(seed) / "metrics.json", ignored))
      return true;
  }
  for (const v1::Bench& bench : resolved.recipe.bench()) {
    for (const uint32_t batch : bench.batch()) {
      const fs::path last = run.repeat_folder(bench.id(), 1, batch, bench.repeats());
      if (options.benches && !fs::exists(last / "result.json", ignored)) return true;
    }
  }
  return false;
}

// The last checkpoint of some trial, "" if there is none.
fs::path any_checkpoint(const RunRecord& run, const ResolvedRecipe& resolved) {
  std::error_code ignored;
  for (const uint64_t seed :
       trial_seeds(resolved.recipe.trials(), resolved.recipe.trials().count())) {
    const fs::path folder = run.trial_folder(seed);
    if (!fs::exists(folder / "state.json", ignored)) continue;
    record::TrialState state;
    read_json(folder / "state.json", state);
    if (fs::exists(folder / state.checkpoint(), ignored)) return folder / state.checkpoint();
  }
  return {};
}

// Failures that stand in the record, those of earlier calls too: they count until a new run.
std::vector<std::string> recorded_failures(const RunRecord& run) {
  const Measurements measured = run.measurements();
  std::vector<std::string> out;
  for (const Trial& trial : measured.trials) {
    if (!trial.failure.empty()) out.push_back(trial.name + " failed: " + trial.failure);
  }
  for (const BenchResult& bench : measured.benches) {
    if (bench.failure.empty()) continue;
    out.push_back("bench " + bench.bench + ", batch " + std::to_string(bench.batch) +
                  " failed: " + bench.failure);
  }
  return out;
}

RunOutcome outcome_of(const RunRecord& run, const std::vector<std::string>& failures) {
  return {run.folder(), failures.empty() ? Exit::kOk : Exit::kCrashed};
}

}  // namespace

RunOutcome run_recipe(const ResolvedRecipe& resolved, const RunOptions& options,
                      TrainerDriver& driver, Progress& progress, std::atomic<bool>& stop) {
  require_concrete(resolved);
  create_folders(options.runs);
  const FileLock lock(options.runs / ".lock", "'" + options.runs.string() + "'");
  bool checked = false;
  RunRecord run = open_or_create(resolved, options, driver, progress, checked);
  if (!has_work(run, resolved, options)) {
    const std::vector<std::string> failures = recorded_failures(run);
    for (const std::string& failure : failures) progress.note(failure);
    return outcome_of(run, failures);
  }
  if (!checked) driver.check(resolved.recipe);
  run.set_status("running");
  progress.note("run " + run.info().id());
  try {
    if (options.trials) run_trials(run, resolved, options, driver, progress, stop);
    if (options.benches)
      run_benches({run, any_checkpoint(run, resolved), 1, stop}, driver, progress);
  } catch (const Error& error) {
    try {
      run.set_status(error.exit_code() == Exit::kInterrupted ? "interrupted" : "failed");
    } catch (const Error&) {  // a full disk stops this too; the first failure is the one to tell
    }
    throw;
  }
  const RunOutcome outcome = outcome_of(run, recorded_failures(run));
  run.set_status(outcome.exit == Exit::kOk ? "finished" : "failed");
  return outcome;
}

}  // namespace reciperun
