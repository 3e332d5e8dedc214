#include "sdk/graph/autodiff.h"

namespace assay {

std::vector<ValueId> append_backward(Graph& graph, ValueId loss, ValueId seed,
                                     std::span<const ValueId> wanted) {
  require(graph.type(loss) == ValueType{DType::kF32, {}}, Code::kInvalid,
          "the loss must be a f32 scalar, got ", graph.type(loss));
  const auto n_values = graph.values().size();
  const auto n_nodes = static_cast<int32_t>(graph.nodes().size());

  // A value needs a gradient if it is wanted or depends on something wanted.
  std::vector<bool> needed(n_values, false);
  for (const ValueId value : wanted) needed[value.index] = true;
  for (const Node& node : graph.nodes()) {
    bool any = false;
    for (const ValueId input : node.inputs) any = any || needed[input.index];
    if (any) {
      for (const ValueId output : node.outputs) needed[output.index] = true;
    }
  }

  std::vector<std::vector<ValueId>> contributions(n_values);
  contributions[loss.index].push_back(seed);
  const std::string scope = graph.scope();
  for (int32_t i = n_nodes - 1; i >= 0; --i) {
    const NodeId id{i};
    const ValueId first_output =
        graph.node(id).outputs.empty() ? ValueId{} : graph.node(id).outputs[0];
    const bool is_leaf = graph.node(id).inputs.empty();
    if (is_leaf || !first_output.valid() || !needed[first_output.index]) continue;
    if (contributions[first_output.index].empty()) continue;
    graph.set_scope(graph.node(id).scope);
    GradCtx context(graph, id, contributions, needed);
    const Op op = graph.node(id).op;  // a copy: emitting may move the nodes
    std::visit([&](const auto& o) { grad(o, context); }, op);
  }
  graph.set_scope(scope);

  std::vector<ValueId> gradients;
  for (const ValueId value : wanted) {
    auto& list = contributions[value.index];
    while (list.size() > 1) {
      list[0] = graph.emit1(Add{}, {list[0], list[1]});
      list.erase(list.begin() + 1);
    }
    gradients.push_back(list.empty() ? ValueId{} : list[0]);
  }
  return gradients;
}

}  // namespace assay
