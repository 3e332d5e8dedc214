// Bound launches as one CUDA graph.
#pragma once

#include <memory>

#include "sdk/backend/backend.h"
#include "sdk/backend/cuda/device.h"

namespace assay::cuda {

// The first run enqueues launch by launch, which loads kernels (loading inside a capture may fail);
// the second is captured; from then on a run is one graph launch. `run` does not wait for the
// device: what the host reads afterwards comes in stream order. With `cancel` the flag is looked at
// before each launch of the first run and before each graph. Launches of the second queue go to a
// stream beside, which forks from the program's stream and joins it again: in a capture these are
// branches of the one graph.
std::unique_ptr<Executable> make_graph_executable(std::shared_ptr<DeviceState> device,
                                                  std::vector<ScheduledLaunch> launches,
                                                  size_t cancellable);

}  // namespace assay::cuda
