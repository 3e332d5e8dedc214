// What the passes that join an addition to the node before it have in common.
#pragma once

#include "sdk/graph/elementwise.h"
#include "sdk/graph/uses.h"

namespace assay {

// Calls fuse(rewriter, add, y, other) for each addition with its operands in both orders, until it
// answers that it rewrote the addition. Says whether any was.
template <class Fuse>
bool fuse_additions(Graph& graph, const Fuse& fuse) {
  Rewriter rewriter(graph);
  bool changed = false;
  for (int32_t i = 0; i < static_cast<int32_t>(graph.nodes().size()); ++i) {
    const NodeId add{i};
    if (!is_add(graph.node(add).op)) continue;
    const ValueId a = graph.node(add).inputs[0], b = graph.node(add).inputs[1];
    if (graph.type(a) != graph.type(b)) continue;  // one is repeated
    changed = fuse(rewriter, add, a, b) || fuse(rewriter, add, b, a) || changed;
  }
  return changed;
}

}  // namespace assay
