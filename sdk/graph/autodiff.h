// Reverse-mode differentiation on the graph.
#pragma once

#include <span>
#include <vector>

#include "sdk/graph/graph.h"

namespace assay {

// Appends the backward of `loss` ([] f32) to the graph. `seed` [] f32 is dL/dloss: 1, or the loss
// scale. Returns, for each of `wanted`, its gradient (like the value), or an invalid id if loss
// does not depend on it.
std::vector<ValueId> append_backward(Graph& graph, ValueId loss, ValueId seed,
                                     std::span<const ValueId> wanted);

}  // namespace assay
