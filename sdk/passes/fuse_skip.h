// Skip connections: a tensor that is pooled, and also stands, cropped, in a concatenation later on.
// Forward it is copied once, backward its two gradients are added where one of them is made.
#pragma once

#include "sdk/graph/graph.h"

namespace assay {

bool fuse_skip_concat(Graph& graph);
bool fuse_skip_gradient(Graph& graph);

}  // namespace assay
