// Gradients of biases, summed up where what they are the sums of is made.
#pragma once

#include "sdk/graph/graph.h"

namespace assay {

// For GPUs: a pass over a gradient less for each bias in front of a relu, of an activation behind a
// product, or of a layer normalisation. Returns whether it changed the graph.
bool fuse_bias_gradient(Graph& graph);

}  // namespace assay
