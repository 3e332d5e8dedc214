// Batches to a device: pinned memory and device memory for two, a stream of their own for the
// transfers, events between it and the stream of programs.
#pragma once

#include "sdk/backend/cuda/device.h"

namespace assay::cuda {

std::unique_ptr<Feed> make_device_feed(std::shared_ptr<DeviceState> device, const FeedSpec& spec);

}  // namespace assay::cuda
