// The walk over the nodes that most passes are.
#pragma once

#include "sdk/graph/graph.h"

namespace assay {

// Calls rewrite(id) for each node, also for those that it appends; it answers whether it changed
// the graph. Says whether any call did.
template <class Rewrite>
bool rewrite_each(Graph& graph, const Rewrite& rewrite) {
  bool changed = false;
  for (int32_t i = 0; i < static_cast<int32_t>(graph.nodes().size()); ++i)
    changed = rewrite(NodeId{i}) || changed;
  return changed;
}

// Likewise rewrite(id, op) for each node of the kind T.
template <class T, class Rewrite>
bool rewrite_each(Graph& graph, const Rewrite& rewrite) {
  return rewrite_each(graph, [&](NodeId id) {
    const auto* op = std::get_if<T>(&graph.node(id).op);
    return op != nullptr && rewrite(id, *op);
  });
}

}  // namespace assay
