// Plans for a device that is not there: dumps, memory plans and golden tests on any machine.
#pragma once

#include <memory>

#include "sdk/backend/backend.h"

namespace assay::cuda {

// Own kernels, convolutions and attention are planned as on the device, down to their scratch, for
// the devices of described_device.h; matrix products are named by what they compute and have no
// scratch, since cuBLASLt can only choose on the device. Memory is addresses without anything
// behind them; programs do nothing, and all reads give zeros.
std::unique_ptr<Backend> make_plan_only_backend(const Target& target);

}  // namespace assay::cuda
