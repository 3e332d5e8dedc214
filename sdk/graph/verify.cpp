// The invariants of a graph, checked node by node in the order of execution, with what memory holds
// at each of them.
#include "sdk/graph/verify.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "sdk/graph/infer_ctx.h"
#include "sdk/graph/text.h"

namespace assay {
namespace {

// Stands for a node's text in a message: written out for each node of a large graph, texts would
// take seconds.
struct Text {
  const Graph& graph;
  NodeId node;
};
std::string to_text(const Text& text) { return node_text(text.graph, text.node); }

void verify_links(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  for (const ValueId input : node.inputs) {
    require(input.valid() && input.index < static_cast<int>(graph.values().size()), Code::kInternal,
            "verify: dangling input in ", Text{graph, id});
    require(graph.value(input).producer < id, Code::kInternal, "verify: %", input.index,
            " is read before it is produced in ", Text{graph, id});
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const Value& value = graph.value(node.outputs[i]);
    require(value.producer == id && value.output == static_cast<int>(i), Code::kInternal,
            "verify: output ", i, " does not point back to ", Text{graph, id});
  }
}

// A value has memory of its own, or lies in that of an input, or in that of a concatenation that
// reads it.
void verify_place(const Graph& graph, ValueId id, const InferCtx::Output& inferred) {
  const Value& value = graph.value(id);
  const Node& producer = graph.node(value.producer);
  const ValueId alias =
      inferred.alias < 0 ? ValueId{} : producer.inputs[static_cast<size_t>(inferred.alias)];
  Layout layout = inferred.layout;
  bool is_part = !value.placed_in.valid();
  if (!is_part && !alias.valid()) {
    const NodeId concat = graph.value(value.placed_in).producer;
    const auto& parts = graph.node(concat).inputs;
    const auto part = std::find(parts.begin(), parts.end(), id);
    is_part = std::holds_alternative<Concat>(graph.node(concat).op) && part != parts.end();
    if (is_part) layout = layout_in_concat(graph, concat, static_cast<int>(part - parts.begin()));
  }
  require(value.alias_of == alias && is_part && value.layout == layout, Code::kInternal,
          "verify: %", id.index, " does not lie where it should, at", layout, ", in ",
          Text{graph, value.producer});
}

void verify_types(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  InferCtx context(graph, node.op, node.inputs, node.scope);
  std::visit([&](const auto& op) { infer(op, context); }, node.op);
  require(context.results().size() == node.outputs.size(), Code::kInternal,
          "verify: wrong number of outputs in ", Text{graph, id});
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    require(context.results()[i].type == graph.type(node.outputs[i]), Code::kInternal,
            "verify: output ", i, " should be ", context.results()[i].type, " in ",
            Text{graph, id});
    verify_place(graph, node.outputs[i], context.results()[i]);
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
            "verify: a second leaf of ", leaf->name, " in ", Text{graph, id},
            "; its uses must share one (graph/leaves.h)");
  }

 private:
  std::set<std::pair<std::string_view, Role>> leaves_;
};

// The memory that each value lies in, and which parts of it were overwritten when. A leaf of a
// parameter stands for what it holds when the run begins.
class Memories {
 public:
  explicit Memories(const Graph& graph)
      : graph_(graph),
        memory_(graph.values().size()),
        since_(graph.values().size(), 0),
        overwritten_(graph.values().size()) {
    for (size_t v = 0; v < memory_.size(); ++v)
      memory_[v] = static_cast<size_t>(graph.root({static_cast<int32_t>(v)}).index);
  }

  // Whether nothing of the value was overwritten since it was made, as far as extents tell.
  bool is_current(ValueId id) const {
    const auto v = static_cast<size_t>(id.index);
    const Extent own = extent(id);
    const auto& writes = overwritten_[memory_[v]];
    return std::none_of(writes.begin() + since_[v], writes.end(), [&](const Extent& write) {
      return write.begin < own.end && own.begin < write.end;
    });
  }
  void define_outputs(NodeId id) {
    const Node& node = graph_.node(id);
    for (const ValueId output : node.outputs) {
      const auto v = static_cast<size_t>(output.index);
      const ValueId alias = graph_.value(output).alias_of;
      auto& writes = overwritten_[memory_[v]];
      if (!alias.valid()) continue;
      since_[v] = since_[static_cast<size_t>(alias.index)];
      if (!is_update(node.op)) continue;
      writes.push_back(extent(output));
      since_[v] = static_cast<std::ptrdiff_t>(writes.size());
    }
  }

 private:
  Extent extent(ValueId id) const {
    return extent_of(graph_.value(id).layout, graph_.type(id).dims);
  }

  const Graph& graph_;
  std::vector<size_t> memory_;                    // by value
  std::vector<std::ptrdiff_t> since_;             // by value: of the writes, those it has seen
  std::vector<std::vector<Extent>> overwritten_;  // by memory
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
