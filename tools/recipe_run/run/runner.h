// One call of `recipe-run run`: find or begin the run, train what is missing, measure what is
// missing.
#pragma once

#include <atomic>

#include "tools/recipe_run/record/run_folder.h"
#include "tools/recipe_run/run/bench_runner.h"
#include "tools/recipe_run/run/trainer.h"

namespace reciperun {

struct RunOptions {
  std::string runs = "runs";  // folder
  bool fresh = false;         // begin a new run even if there is one to continue
  bool benches = true;
  bool trials = true;
  double checkpoint_seconds = 30;
  bool tensorboard = false;  // trials leave event files (record/tensorboard.h), too
  // More trials, up to the recipe's max_count, while a row over trials is undecided.
  bool top_up = false;
  RunPlace place;
  // Program that measures every repeat in a process of its own (bench_runner.h); "" = measure here.
  fs::path measuring_program;
};

struct RunOutcome {
  fs::path folder;
  Exit exit = Exit::kOk;  // kCrashed if a trial or bench failed; the rows' exit comes on top
};

// Raises Error kInterrupted when `stop` was set; the same call later continues.
RunOutcome run_recipe(const ResolvedRecipe& resolved, const RunOptions& options,
                      TrainerDriver& driver, Progress& progress, std::atomic<bool>& stop);

}  // namespace reciperun
