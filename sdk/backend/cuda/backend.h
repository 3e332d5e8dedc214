// The CUDA backend on a device.
#pragma once

#include <memory>

#include "sdk/backend/cuda/plugin.h"

namespace assay::cuda {

// All devices of the machine; if there are none or the driver does not work, none and `reason`.
std::vector<Device> find_devices(std::string& reason);

// See PluginTable::memory_free.
uint64_t memory_free(int index);

std::unique_ptr<Backend> make_device_backend(const Options& options);

}  // namespace assay::cuda
