// Bound launches, run one after the other.
#pragma once

#include <memory>

#include "sdk/backend/backend.h"

namespace assay::cpu {

// Launches of the compute queue run on the thread that calls `run`. Those of the second queue, if
// there are any, run on a thread of the program's own, so that one which waits for another process
// does not hold up what needs nothing of it. `threads` are for each launch.
std::unique_ptr<Executable> make_program(std::vector<ScheduledLaunch> launches, size_t cancellable,
                                         int threads);

}  // namespace assay::cpu
