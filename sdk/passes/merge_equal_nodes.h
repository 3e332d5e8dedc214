// Nodes that compute the same of the same.
#pragma once

#include "sdk/graph/graph.h"

namespace assay {

bool merge_equal_nodes(Graph& graph);

}  // namespace assay
