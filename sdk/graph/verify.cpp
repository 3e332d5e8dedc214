#include "sdk/graph/verify.h"

#include <set>
#include <utility>
#include <vector>

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

[[noreturn]] void fail_overwritten(ValueId value, const std::string& reader) {
  fail(Code::kInternal, cat("verify: %", value.index, " was updated in place before ", reader));
}

// A second leaf of a variable would be the same memory under another id: autodiff would lose what
// the uses of one of them contribute, and nobody would see that it was updated.
class OneLeafEach {
 public:
  void add(const Graph& graph, NodeId id) {
    const auto* leaf = std::get_if<Parameter>(&graph.node(id).op);
    if (leaf == nullptr) return;
    require(leaves_.emplace(leaf->name, leaf->role).second, Code::kInternal,
            "verify: a second leaf of ", leaf->name, " in ", node_text(graph, id),
            "; its uses must share one (graph/leaves.h)");
  }

 private:
  std::set<std::pair<std::string_view, Role>> leaves_;
};

// Memory that values share, and how often it was overwritten.
class Memories {
 public:
  explicit Memories(const Graph& graph) : graph_(graph), of_(graph.values().size()) {}

  bool is_current(ValueId value) const {
    return of_[value.index].version == versions_[of_[value.index].memory];
  }
  void define_outputs(NodeId id) {
    const Node& node = graph_.node(id);
    for (const ValueId output : node.outputs) {
      const ValueId alias = graph_.value(output).alias_of;
      Place& place = of_[output.index];
      place = alias.valid() ? of_[alias.index] : fresh();
      if (alias.valid() && is_update(node.op)) place.version = ++versions_[place.memory];
    }
  }

 private:
  struct Place {
    size_t memory = 0;
    int version = 0;
  };
  Place fresh() {
    versions_.push_back(0);
    return {versions_.size() - 1, 0};
  }

  const Graph& graph_;
  std::vector<Place> of_;      // by value
  std::vector<int> versions_;  // by memory
};

}  // namespace

void verify(const Graph& graph) {
  Memories memories(graph);
  OneLeafEach leaves;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const NodeId id{static_cast<int32_t>(i)};
    verify_links(graph, id);
    verify_types(graph, id);
    leaves.add(graph, id);
    for (const ValueId input : graph.node(id).inputs) {
      if (!memories.is_current(input)) fail_overwritten(input, node_text(graph, id));
    }
    memories.define_outputs(id);
  }
  for (const GraphOutput& output : graph.outputs()) {
    require(output.value.valid() && output.value.index < static_cast<int>(graph.values().size()),
            Code::kInternal, "verify: graph output ", output.name, " does not exist");
    if (!memories.is_current(output.value))
      fail_overwritten(output.value, "the end, where it is output " + output.name);
  }
}

}  // namespace assay
