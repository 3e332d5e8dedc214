// Fusions into the epilogue of convolutions and matrix products. Each returns whether it changed
// the graph.
#pragma once

#include "sdk/graph/graph.h"

namespace assay {

bool fuse_activation(Graph& graph);
bool fuse_kept_activation(Graph& graph);
bool fuse_gradient_addition(Graph& graph);
bool fuse_activation_grad(Graph& graph);
bool sum_gradients_in_f32(Graph& graph);
bool fuse_product_cast(Graph& graph);
bool fuse_gradient_cast(Graph& graph);

}  // namespace assay
