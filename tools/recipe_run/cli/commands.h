// The commands of recipe-run. Each prints to stdout (progress goes to stderr) and returns the
// process's exit code; failures are raised as Error.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/recipe_run/run/bench_runner.h"
#include "tools/recipe_run/run/trainer_driver.h"

namespace reciperun {

// The `recipes` folder: as given, else ./recipes, else the one beside or above the program.
fs::path recipes_root(const std::string& given);

// Makes a driver. Error kNotRun, with the reason, where its device cannot be used.
using DriverFactory = std::function<std::unique_ptr<TrainerDriver>(const DriverOptions& options)>;

struct ListArguments {
  std::string filter;  // part of an id; "" = all
  bool json = false;
};
// Recipes by system, and how many of their published rows can be judged where.
int list_recipes(const fs::path& root, const ListArguments& arguments,
                 const DriverFactory& make_driver);
// The values of a recipe with the files that set them.
int show_recipe(const fs::path& root, const std::string& recipe, const std::string& path,
                const std::vector<std::string>& sets);

struct PlanArguments {
  std::string recipe;
  std::vector<std::string> sets;
  std::string runs = "runs";     // earlier runs say what the next one will cost
  uint32_t emulate_devices = 0;  // 0 = none
  std::string device = "cpu";    // as DriverOptions::device
};
int plan_recipe(const fs::path& root, const PlanArguments& arguments,
                const DriverFactory& make_driver);

struct RunArguments {
  std::string recipe;
  std::vector<std::string> sets;
  std::string runs = "runs";
  bool fresh = false;
  bool no_bench = false;
  bool bench_only = false;
  bool quiet = false;
  bool require = false;
  bool smoke = false;  // a few steps only; no benches
  uint32_t seeds = 0;  // number of trials; 0 = the recipe's
  bool top_up = false;
  uint32_t emulate_devices = 0;  // 0 = none
  std::string device = "cpu";    // as DriverOptions::device
  // What measures every repeat in a process of its own; "" = this process.
  fs::path measuring_program;
};
int run_command(const fs::path& root, const RunArguments& arguments,
                const DriverFactory& make_driver);

// One repeat of a bench of the run in `folder`, for the process that `run` starts for it.
struct RepeatArguments {
  std::string folder;
  BenchTask task;
  std::string checkpoint;
};
int bench_repeat_command(const RepeatArguments& arguments, const DriverFactory& make_driver);

}  // namespace reciperun
