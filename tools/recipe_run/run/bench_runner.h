// Runs the benches of a recipe: every configuration, its repeats interleaved with the others'
// (ABCABC...), so that a drift of the machine hits all alike.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "tools/common/progress.h"
#include "tools/recipe_run/record/run_folder.h"
#include "tools/recipe_run/run/trainer.h"

namespace reciperun {

// The repeats that have no result yet, in the order in which they are to be measured; without those
// that need more devices than there are.
std::vector<BenchTask> open_bench_tasks(const RunRecord& record, uint32_t devices_available);

// Measures `task` in this process and leaves steps.bin and result.json in its folder. A Failed of
// the measurement is its result; every other failure is raised and leaves no result. `checkpoint`:
// trained weights for inference, "" for fresh ones. `stop`: Error kInterrupted before the next
// batch.
void measure_repeat(const RunRecord& record, const BenchTask& task, const fs::path& checkpoint,
                    TrainerDriver& driver, const std::atomic<bool>& stop, const Tick& tick);

// Has one repeat measured, here or in a process of its own (repeat_process.h).
using MeasureRepeat = std::function<void(const BenchTask& task, const Tick& tick)>;

// Measures what is open. A configuration whose repeat raises is left, the others go on, and the
// first failure is raised at the end: the same call later measures what is missing.
void run_benches(const std::vector<BenchTask>& tasks, const MeasureRepeat& measure,
                 const std::atomic<bool>& stop, Progress& progress);

// Throughput of one repeat by the bench's rate definition.
double rate_of(v1::Bench::Rate rate, std::span<const double> step_seconds,
               std::span<const double> step_items);

// Every repeat of a measurement in a process of its own: memory layout, thread placement and warmed
// caches are drawn anew, so that repeats differ as much as runs of different users do.

// A MeasureRepeat that starts `program` as
//   program bench-repeat RUN --bench ID --devices D --batch B --repeat R --checkpoint FILE
// and waits for it. Fails as the process did (its exit code, its last words), or with kCrashed if
// it was ended by a signal; kInterrupted, after ending it, once `stop` is set.
MeasureRepeat in_own_process(const fs::path& program, const RunRecord& record,
                             const fs::path& checkpoint, const std::atomic<bool>& stop);

}  // namespace reciperun
