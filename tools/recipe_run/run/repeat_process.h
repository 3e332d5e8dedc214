// Every repeat of a measurement in a process of its own: memory layout, thread placement and warmed
// caches are drawn anew, so that repeats differ as much as runs of different users do.
#pragma once

#include <atomic>

#include "tools/recipe_run/run/bench_runner.h"

namespace reciperun {

// A MeasureRepeat that starts `program` as
//   program bench-repeat RUN --bench ID --devices D --batch B --repeat R --checkpoint FILE
// and waits for it. Fails as the process did (its exit code, its last words), or with kCrashed if
// it was ended by a signal; kInterrupted, after ending it, once `stop` is set.
MeasureRepeat in_own_process(const fs::path& program, const RunRecord& record,
                             const fs::path& checkpoint, const std::atomic<bool>& stop);

}  // namespace reciperun
