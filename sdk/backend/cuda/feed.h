// Batches to a device: pinned memory and device memory for two, a stream of their own for the
// transfers, events between it and the stream of programs.
#pragma once

#include "sdk/backend/cuda/device.h"

namespace assay::cuda {

// Its memory comes from `memory` (Backend::make_feed).
std::unique_ptr<Feed> make_device_feed(std::shared_ptr<DeviceState> device, const FeedSpec& spec,
                                       Backend& memory);

}  // namespace assay::cuda
