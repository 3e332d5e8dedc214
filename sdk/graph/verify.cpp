#include "sdk/graph/verify.h"

#include "sdk/graph/text.h"

namespace assay {
namespace {

void verify_links(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  for (const ValueId input : node.inputs) {
    require(input.valid() && input.index < static_cast<int>(graph.values().size()), Code::kInternal,
            "verify: dangling input in ", node_text(graph, id));
    require(graph.value(input).producer < id, Code::kInternal, "verify: %", input.index,
            " is read before it is produced in ", node_text(graph, id));
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const Value& value = graph.value(node.outputs[i]);
    require(value.producer == id && value.output == static_cast<int>(i), Code::kInternal,
            "verify: output ", i, " does not point back to ", node_text(graph, id));
  }
}

void verify_types(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  InferCtx context(graph, node.op, node.inputs, node.scope);
  std::visit([&](const auto& op) { infer(op, context); }, node.op);
  require(context.results().size() == node.outputs.size(), Code::kInternal,
          "verify: wrong number of outputs in ", node_text(graph, id));
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    require(context.results()[i].type == graph.type(node.outputs[i]), Code::kInternal,
            "verify: output ", i, " should be ", context.results()[i].type, " in ",
            node_text(graph, id));
  }
}

}  // namespace

void verify(const Graph& graph) {
  std::vector<NodeId> overwritten_by(graph.values().size());
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const NodeId id{static_cast<int32_t>(i)};
    verify_links(graph, id);
    verify_types(graph, id);
    const Node& node = graph.node(id);
    for (const ValueId input : node.inputs) {
      require(!overwritten_by[input.index].valid(), Code::kInternal, "verify: %", input.index,
              " was updated in place before ", node_text(graph, id));
    }
    if (!is_update(node.op)) continue;
    for (const ValueId output : node.outputs) {
      if (graph.value(output).alias_of.valid())
        overwritten_by[graph.value(output).alias_of.index] = id;
    }
  }
  for (const GraphOutput& output : graph.outputs()) {
    require(output.value.valid() && output.value.index < static_cast<int>(graph.values().size()),
            Code::kInternal, "verify: graph output ", output.name, " does not exist");
  }
}

}  // namespace assay
