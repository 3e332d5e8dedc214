// Ranks that are GPUs, one in each process or thread.
#pragma once

#include <chrono>
#include <memory>

#include "sdk/backend/backend.h"
#include "sdk/backend/cuda/device.h"
#include "sdk/comm/channel.h"

namespace assay::cuda {

// Backend::make_channel of the device. Its sums and broadcasts are of device memory, and enqueued;
// their failures show where the host waits for the device. Every rank must plan sums of the same
// sizes: NCCL does not compare them.
std::unique_ptr<Channel> make_nccl_channel(std::shared_ptr<DeviceState> device,
                                           std::unique_ptr<Channel> hosts,
                                           std::chrono::nanoseconds timeout,
                                           std::shared_ptr<Backend> memory);

}  // namespace assay::cuda
