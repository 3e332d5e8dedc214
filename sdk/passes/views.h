// Views and concatenations as they are run: nodes read views where they are if they can, and write
// into a concatenation if they can; a Copy stands where they cannot.
#pragma once

#include <functional>
#include <vector>

#include "sdk/graph/graph.h"

namespace assay {

// Whether the node only looks at a value, in the memory where that lies.
bool is_view(const Graph& graph, const Node& node);

// The graph with all copies in it, and with results placed in concatenations. Every node can then
// read its inputs where they lie, the parts of each Concat lie in its result, and the graph's
// outputs are dense. Done once, on the way from a graph to a program; running it again changes
// nothing.
struct LoweredGraph {
  Graph graph;
  std::vector<ValueId> values;  // by index in the graph before: the same value
};
// Parameters that a Concat joins along the first axis need no copy either where each begins where
// the one before it ends, which `follows` says of two: the three projections of an attention are
// three variables and one product.
using Follows = std::function<bool(const Parameter& first, const Parameter& second)>;
LoweredGraph lower_views(Graph graph, const Follows& follows = nullptr);

}  // namespace assay
