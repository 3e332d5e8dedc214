// AllReduce is alike on every backend: the channel, which the backend made, knows how the devices
// are connected.
#pragma once

#include "sdk/backend/backend.h"
#include "sdk/comm/channel.h"

namespace assay {

// Gradients f32, one behind the other in their segment, with what lies between them.
inline NodePlan all_reduce_plan(const AllReduce& p, const NodeView& c) {
  NodePlan plan;
  plan.kernel = "channel:all_reduce";
  plan.bind = [n = c.n_inputs(), last = c.x(c.n_inputs() - 1).numel(),
               wire = p.wire.value_or(DType::kF32)](const Binding& b) -> Launch {
    require(b.channel != nullptr, Code::kInternal,
            "a program that sums over devices has no channel");
    auto* const begin = static_cast<float*>(b.inputs[0]);
    const float* const end = static_cast<float*>(b.inputs[n - 1]) + last;
    require(begin < end, Code::kInternal, "gradients to be summed together are not in order");
    return b.channel->all_reduce(begin, end - begin, wire);
  };
  return plan;
}

}  // namespace assay
