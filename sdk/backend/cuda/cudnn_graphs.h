// What the backend asks cuDNN for, as graphs of cudnn-frontend.
#pragma once

#include <functional>
#include <span>
#include <unordered_map>

#include "sdk/backend/cuda/libraries.h"

namespace cudnn_frontend::graph {
class Graph;
}

namespace assay::cuda {

using Addresses = std::unordered_map<int64_t, void*>;  // by uid
using FindAddresses = std::function<Addresses(std::span<void* const> operands)>;

// Fills the graph, and says where its tensors lie: operands as the call's type lists them.
FindAddresses describe(cudnn_frontend::graph::Graph& graph, const Convolution& convolution,
                       bool deterministic);
FindAddresses describe(cudnn_frontend::graph::Graph& graph, const FusedAttention& attention,
                       bool deterministic);

}  // namespace assay::cuda
