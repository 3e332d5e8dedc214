// Chains of elementwise nodes as one, and products that are summed.
#pragma once

#include "sdk/graph/graph.h"

namespace assay {

bool fuse_product_sum(Graph& graph);
bool fuse_pointwise(Graph& graph);

}  // namespace assay
