#include "sdk/graph/uses.h"

#include <algorithm>

namespace assay {

Uses::Uses(const Graph& graph)
    : readers(graph.values().size()), is_output(graph.values().size(), false) {
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    for (const ValueId input : graph.nodes()[i].inputs) {
      readers[input.index].push_back({static_cast<int32_t>(i)});
    }
  }
  for (const GraphOutput& output : graph.outputs()) is_output[output.value.index] = true;
}

bool Uses::only_reader(ValueId value, NodeId node) const {
  return !is_output[value.index] && readers[value.index].size() == 1 &&
         readers[value.index][0] == node;
}

void Rewriter::count(NodeId node) {
  for (const ValueId input : graph_.node(node).inputs) {
    auto& readers = uses_.readers[static_cast<size_t>(input.index)];
    readers.insert(std::upper_bound(readers.begin(), readers.end(), node), node);
  }
}

void Rewriter::rewrite(NodeId node, Op op, std::vector<ValueId> inputs,
                       std::span<const ValueId> adopt) {
  for (const ValueId input : graph_.node(node).inputs)
    std::erase(uses_.readers[static_cast<size_t>(input.index)], node);
  graph_.rewrite(node, std::move(op), std::move(inputs), adopt);
  uses_.readers.resize(graph_.values().size());
  uses_.is_output.resize(graph_.values().size(), false);
  count(node);
  for (; counted_ < graph_.nodes().size(); ++counted_) count({static_cast<int32_t>(counted_)});
}

}  // namespace assay
