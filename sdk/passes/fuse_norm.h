// Fusions around normalisations. Each returns whether it changed the graph.
#pragma once

#include "sdk/graph/graph.h"

namespace assay {

bool fuse_batch_norm_activation(Graph& graph);
bool fuse_batch_norm_add(Graph& graph);
bool fuse_batch_norm_gradient_add(Graph& graph);
bool fuse_layer_norm_gradient_add(Graph& graph);
bool fuse_batch_norm_max_pool(Graph& graph);
bool fuse_batch_norm_sums(Graph& graph);
bool fuse_batch_norm_gradient_sums(Graph& graph);
bool fuse_batch_norm_residual(Graph& graph);
bool fuse_batch_norm_mask(Graph& graph);
bool fold_batch_norm(Graph& graph);

}  // namespace assay
