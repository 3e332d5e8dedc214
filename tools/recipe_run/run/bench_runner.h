// Runs the benches of a recipe: every configuration, its repeats interleaved with the others'
// (ABCABC...), so that a drift of the machine hits all alike.
#pragma once

#include <atomic>

#include "tools/recipe_run/run/progress.h"
#include "tools/recipe_run/run/trainer_driver.h"
#include "tools/recipe_run/run_record/record.h"

namespace reciperun {

struct BenchJob {
  const RunRecord& record;
  fs::path checkpoint;             // trained weights for inference, "" for fresh ones
  uint32_t devices_available = 1;  // configurations that need more are left out
  std::atomic<bool>& stop;         // set by a signal: Error kInterrupted before the next batch
};

// Repeats that have their result.json are not run again. A configuration that fails is recorded as
// failed, and the others go on.
void run_benches(const BenchJob& job, TrainerDriver& driver, Progress& progress);

// Throughput of one repeat by the bench's rate definition.
double rate_of(v1::Bench::Rate rate, std::span<const double> step_seconds, double items_per_batch);

}  // namespace reciperun
