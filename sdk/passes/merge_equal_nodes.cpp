#include "sdk/passes/merge_equal_nodes.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "sdk/graph/uses.h"

namespace assay {

// f(x), f(x)   ⇒   f(x), read by all
// Differentiation writes what the gradients of several inputs have in common once for each. Within
// a phase: what backward makes again is not kept for it.
bool merge_equal_nodes(Graph& graph) {
  const Uses uses(graph);
  std::vector<ValueId> kept(graph.values().size());  // by value: itself, or its equal
  for (size_t i = 0; i < kept.size(); ++i) kept[i] = {static_cast<int32_t>(i)};
  std::map<std::tuple<std::string, std::vector<ValueId>, Phase, QueueId>, NodeId> known;
  bool changed = false;
  for (int32_t i = 0; i < static_cast<int32_t>(graph.nodes().size()); ++i) {
    const NodeId id{i};
    std::vector<ValueId> inputs = graph.node(id).inputs;
    for (ValueId& input : inputs) input = kept[static_cast<size_t>(input.index)];
    if (inputs != graph.node(id).inputs) {
      const Op op = graph.node(id).op;
      graph.rewrite(id, op, inputs);
      changed = true;
    }
    const Node& node = graph.node(id);
    const auto is_output = [&](ValueId y) { return uses.is_output[static_cast<size_t>(y.index)]; };
    if (inputs.empty() || is_update(node.op) ||
        std::any_of(node.outputs.begin(), node.outputs.end(), is_output))
      continue;
    const auto [equal, is_new] = known.try_emplace(
        {cat(op_name(node.op), attributes_text(node.op)), inputs, node.phase, node.queue}, id);
    if (is_new) continue;
    const std::vector<ValueId>& outputs = graph.node(equal->second).outputs;
    for (size_t k = 0; k < outputs.size(); ++k)
      kept[static_cast<size_t>(node.outputs[k].index)] = outputs[k];
  }
  return changed;
}

}  // namespace assay
