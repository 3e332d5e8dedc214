// Who reads each value of a graph, also while a pass rewrites it.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "sdk/graph/graph.h"

namespace assay {

// By value index, in the order of the nodes; graph outputs are counted in `is_output`. A node that
// reads a value twice stands there twice, dead nodes are readers like others.
struct Uses {
  explicit Uses(const Graph& graph);
  std::vector<std::vector<NodeId>> readers;
  std::vector<bool> is_output;
  bool only_reader(ValueId value, NodeId node) const;
};

// Rewrites nodes and keeps the uses true, at the price of what changes: a pass that counted anew
// after each match would take the square of the graph's size. The graph must outlive this, and
// grow or be rewritten by nobody else but by emitting.
class Rewriter {
 public:
  explicit Rewriter(Graph& graph) : graph_(graph), uses_(graph), counted_(graph.nodes().size()) {}

  Graph& graph() const { return graph_; }
  const Uses& uses() const { return uses_; }
  // As Graph::rewrite; also counts what was emitted before.
  void rewrite(NodeId node, Op op, std::vector<ValueId> inputs,
               std::span<const ValueId> adopt = {});

 private:
  void count(NodeId node);

  Graph& graph_;
  Uses uses_;
  size_t counted_;  // nodes
};

}  // namespace assay
