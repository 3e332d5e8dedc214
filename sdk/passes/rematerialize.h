// Values that backward makes again instead of keeping them from forward.
#pragma once

#include "sdk/graph/graph.h"

namespace assay {

// For devices of little memory and cheap launches: CPUs.
bool rematerialize_batch_norm(Graph& graph);

}  // namespace assay
