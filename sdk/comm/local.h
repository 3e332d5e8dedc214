// Ranks that are threads of one process.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "sdk/comm/channel.h"

namespace assay {

// Waits until all `size` ranks of the group `name` have come, each once. kTimeout names those that
// have not; kInvalid: a rank that is there already, or another size.
std::unique_ptr<Channel> make_local_channel(const std::string& name, int rank, int size,
                                            std::chrono::nanoseconds timeout);

}  // namespace assay
