// cuBLASLt and cuDNN on a device.
#pragma once

#include "sdk/backend/cuda/device.h"
#include "sdk/backend/cuda/libraries.h"

namespace assay::cuda {

// `machine`: GPU and versions, for the cache of choices (tuning.h).
std::unique_ptr<Libraries> make_vendor_libraries(const std::string& machine,
                                                 const DeviceState& device);

}  // namespace assay::cuda
