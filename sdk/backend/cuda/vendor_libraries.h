// cuBLASLt and cuDNN, on a device and for one that is not there.
#pragma once

#include "sdk/backend/cuda/device.h"
#include "sdk/backend/cuda/libraries.h"
#include "sdk/graph/target.h"

namespace assay::cuda {

// `machine`: GPU and versions, for the cache of choices (tuning.h).
std::unique_ptr<Libraries> make_vendor_libraries(const std::string& machine,
                                                 const DeviceState& device);

// For a described device (described_device.h): convolutions and attention are planned by cuDNN
// itself, products are named by what they compute and have no scratch, as cuBLASLt chooses on the
// device only.
std::unique_ptr<Libraries> make_planning_libraries(const Target& target);

}  // namespace assay::cuda
