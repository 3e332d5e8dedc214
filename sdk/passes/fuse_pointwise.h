// Chains of elementwise nodes as one.
#pragma once

#include "sdk/graph/graph.h"

namespace assay {

bool fuse_pointwise(Graph& graph);

}  // namespace assay
