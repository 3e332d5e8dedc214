// Values that backward makes again instead of keeping them from forward.
#pragma once

#include "sdk/graph/graph.h"

namespace assay {

// For CPUs, whose steps are bounded by arithmetic: on GPUs the bytes that this moves take time.
bool rematerialize(Graph& graph);

}  // namespace assay
