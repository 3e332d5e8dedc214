// The channel behind assay_comm.
#pragma once

#include <memory>

#include "assay/assay_comm.h"
#include "capi/src/access.h"
#include "sdk/comm/channel.h"

struct assay_comm {
  explicit assay_comm(std::unique_ptr<assay::Channel> made) : channel(std::move(made)) {}
  std::shared_ptr<assay::Channel> channel;
  assay::capi::Access access;
};

namespace assay::capi {

inline std::shared_ptr<Channel> channel_of(const assay_comm* comm) {
  return comm == nullptr ? nullptr : comm->channel;
}

// Wakes a call that waits for other ranks, for an Operation.
inline void abort_channel(void* channel) { static_cast<Channel*>(channel)->abort(); }

}  // namespace assay::capi
