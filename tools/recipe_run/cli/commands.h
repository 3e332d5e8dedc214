// The commands of recipe-run. Each prints to stdout (progress goes to stderr) and returns the
// process's exit code; failures are raised as Error.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/recipe_run/run/runner.h"
#include "tools/recipe_run/run/trainer.h"

namespace reciperun {

// The `recipes` folder: as given, else ./recipes, else the one beside or above the program.
fs::path recipes_root(const std::string& given);

// Makes a driver for a device ("cpu", "cuda:0") with so many compute threads (0 = every core this
// process may use). Error kNotRun, with the reason, where the device cannot be used.
using DriverFactory =
    std::function<std::unique_ptr<TrainerDriver>(const std::string& device, uint32_t threads)>;

// TrainerDriver::check_offered; its Error begins with the place of the hparam it names, or of the
// model. Then sets up the emulation of so many devices (0: none), and only then asks
// TrainerDriver::why_not. Plans and runs both begin with it.
std::string why_not_here(const ResolvedRecipe& resolved, uint32_t emulated_devices,
                         TrainerDriver& driver);

struct ListArguments {
  std::string filter;  // part of an id; "" = all
  bool json = false;
};
// Recipes by system, and how many of their published rows can be judged where.
Exit list_command(const fs::path& root, const ListArguments& arguments,
                  const DriverFactory& make_driver);
// The values of a recipe with the files that set them.
Exit show_command(const fs::path& root, const std::string& recipe, const std::string& path,
                  const std::vector<std::string>& sets);

struct PlanArguments {
  std::string recipe;
  std::vector<std::string> sets;
  std::string runs = "runs";  // earlier runs say what the next one will cost
  RunPlace place;
};
Exit plan_command(const fs::path& root, const PlanArguments& arguments,
                  const DriverFactory& make_driver);

struct RunArguments {
  std::string recipe;
  std::vector<std::string> sets;
  bool no_bench = false;
  bool bench_only = false;
  bool quiet = false;
  bool require = false;
  bool smoke = false;          // a few steps only; no benches
  uint32_t seeds = 0;          // number of trials; 0 = the recipe's
  double rank_timeout = 1800;  // seconds that a rank waits for another
  RunOptions options;
};
Exit run_command(const fs::path& root, const RunArguments& arguments,
                 const DriverFactory& make_driver);
// One repeat of a bench of the run in `folder`, for the process that `run` starts for it.
Exit bench_repeat_command(const std::string& folder, const BenchTask& task,
                          const std::string& checkpoint, const DriverFactory& make_driver);

// --- About runs that are there. `run` everywhere: a folder, a run's id below `runs`, or "" for the
// newest run; Error kUsage if there is none, kTampered for one whose files were changed. ---

struct ReportArguments {
  std::string runs = "runs";
  std::string run;
  std::string format = "all";     // which writes files beside the run
  std::vector<std::string> with;  // runs of other recipes
  bool tight = false;
  bool require = false;
};
Exit report_command(const ReportArguments& arguments);

struct CompareArguments {
  std::string runs = "runs";
  std::string first;  // also the file of a report.json
  std::string second;
  std::string format = "text";
  bool despite_differences = false;
  bool all_rows = false;
};
// Two runs against each other (report/comparison.h); the exit code is that of their rows.
Exit compare_command(const CompareArguments& arguments);

// Prints what was compared, and every difference. Returns kTampered if there is one, kInterrupted
// if the run is not closed and so not sealed.
Exit verify_command(const std::string& runs, const std::string& run);

// --- About data and sources. ---

struct DataArguments {
  std::vector<std::string> names;  // of data sets; empty: all of the lock (lock: needed)
  std::string data = "data";       // folder of the data sets
  std::string folder;              // of the one data set named, if it lies elsewhere
  std::string lock;                // file; "" = data.lock beside the recipes
  bool quiet = false;
};
// Computes the digests of the named data sets and writes them into data.lock.
Exit data_lock_command(const fs::path& root, const DataArguments& arguments,
                       const DriverFactory& make_driver);
// Compares data sets with data.lock; returns kDataMismatch if anything differs.
Exit data_verify_command(const fs::path& root, const DataArguments& arguments,
                         const DriverFactory& make_driver);

// Compares every expectation of every recipe with its cell and asks whether every published result
// belongs to exactly one of them. Returns kSourceChanged if anything differs.
Exit sources_verify_command(const fs::path& root);

}  // namespace reciperun
