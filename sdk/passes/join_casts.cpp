#include "sdk/passes/join_casts.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "sdk/graph/elementwise.h"
#include "sdk/graph/uses.h"

namespace assay {
namespace {

// Casts between two types, of which any may run when the others can.
struct Group {
  bool of_parameters;  // before all that reads one; else behind the last that is stored
  DType from, to;

  bool operator<(const Group& other) const {
    return std::tie(of_parameters, from, to) < std::tie(other.of_parameters, other.from, other.to);
  }
};

// Into a gradient of which no other device has to hear: that begins as soon as it is there.
bool is_only_stored(const Graph& graph, const Uses& uses, ValueId value) {
  const std::vector<NodeId>& readers = uses.readers[value.index];
  if (readers.size() != 1 || uses.is_output[value.index]) return false;
  const Node& store = graph.node(readers[0]);
  return std::holds_alternative<Store>(store.op) &&
         std::ranges::none_of(uses.readers[store.outputs[0].index], [&](NodeId reader) {
           return std::holds_alternative<AllReduce>(graph.node(reader).op);
         });
}

// Parameters, also side by side: what is there from the beginning.
bool is_of_parameters(const Graph& graph, const Node& node) {
  const auto is_parameter = [](const Node& n) { return std::holds_alternative<Parameter>(n.op); };
  return is_parameter(node) || (std::holds_alternative<Concat>(node.op) &&
                                std::ranges::all_of(node.inputs, [&](ValueId x) {
                                  return is_parameter(graph.producer(x));
                                }));
}

// Between data types, of a tensor without gaps.
bool can_be_joined(const Graph& graph, const Node& node) {
  if (!is_cast(node.op)) return false;
  const ValueType& x = graph.type(node.inputs[0]);
  return is_data_type(x.dtype) && is_data_type(graph.type(node.outputs[0]).dtype) &&
         is_dense(graph.value(node.inputs[0]).layout, x.dims);
}

}  // namespace

// parameters ─▶ cast each   ⇒   casts, and   cast each ─▶ stores   ⇒   casts
// Weights in a lower precision, and their gradients in f32: saves a launch for each but one. What
// is cast has to be kept until all can be; of gradients that is until the last one is there.
bool join_casts(Graph& graph) {
  const Uses uses(graph);
  std::map<Group, std::vector<NodeId>> groups;
  for (int32_t i = 0; i < static_cast<int32_t>(graph.nodes().size()); ++i) {
    const Node& node = graph.node({i});
    if (!can_be_joined(graph, node)) continue;
    const bool of_parameters = is_of_parameters(graph, graph.producer(node.inputs[0]));
    if (!of_parameters && !is_only_stored(graph, uses, node.outputs[0])) continue;
    groups[{of_parameters, graph.type(node.inputs[0]).dtype, graph.type(node.outputs[0]).dtype}]
        .push_back({i});
  }
  bool changed = false;
  for (const auto& [group, casts] : groups) {
    if (casts.size() < 2) continue;
    const NodeId joined = group.of_parameters ? casts.front() : casts.back();
    std::vector<ValueId> inputs = graph.node(joined).inputs, adopted;
    for (const NodeId cast : casts) {
      if (cast == joined) continue;
      inputs.push_back(graph.node(cast).inputs[0]);
      adopted.push_back(graph.node(cast).outputs[0]);
    }
    graph.rewrite(joined, Casts{group.to}, std::move(inputs), adopted);
    changed = true;
  }
  return changed;
}

}  // namespace assay
