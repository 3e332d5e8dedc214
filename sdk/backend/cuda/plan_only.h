// Plans for a device that is not there: dumps, memory plans and golden tests on any machine.
#pragma once

#include <memory>

#include "sdk/backend/backend.h"

namespace assay::cuda {

// Own kernels are planned as on the device, down to their scratch; calls of libraries are named by
// what they compute and have no scratch, since only the library on the device can choose. Memory is
// addresses without anything behind them; programs do nothing, and all reads give zeros.
std::unique_ptr<Backend> make_plan_only_backend(const Target& target);

}  // namespace assay::cuda
