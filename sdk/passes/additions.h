// What the passes that join an addition to the node before it have in common.
#pragma once

#include "sdk/graph/elementwise.h"
#include "sdk/graph/uses.h"
#include "sdk/passes/rewrite_each.h"

namespace assay {

// Calls fuse(rewriter, add, y, other) for each addition with its operands in both orders, until it
// answers that it rewrote the addition. Says whether any was.
template <class Fuse>
bool fuse_additions(Graph& graph, const Fuse& fuse) {
  Rewriter rewriter(graph);
  return rewrite_each(graph, [&](NodeId add) {
    if (!is_add(graph.node(add).op)) return false;
    const ValueId a = graph.node(add).inputs[0], b = graph.node(add).inputs[1];
    if (graph.type(a) != graph.type(b)) return false;  // one is repeated
    return fuse(rewriter, add, a, b) || fuse(rewriter, add, b, a);
  });
}

}  // namespace assay
