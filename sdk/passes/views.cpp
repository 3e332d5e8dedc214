// Lowers views in two steps: results are placed in the concatenations that read them, then the
// graph is written anew with a Copy where somebody cannot read or write a value where it lies.
#include "sdk/passes/views.h"

#include <algorithm>
#include <utility>

#include "sdk/graph/uses.h"

namespace assay {

bool is_view(const Graph& graph, const Node& node) {
  return !node.outputs.empty() && graph.value(node.outputs[0]).alias_of.valid() &&
         !is_update(node.op);
}

namespace {

// Whether readers other than `concat` can read the value where it would lie.
bool others_can_read(const Graph& graph, const Uses& uses, ValueId value, NodeId concat,
                     const Layout& layout) {
  const ValueType& type = graph.type(value);
  for (const NodeId reader : uses.readers[value.index]) {
    if (reader == concat) continue;
    const Node& node = graph.node(reader);
    if (is_view(graph, node) || std::holds_alternative<Concat>(node.op)) return false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == value &&
          !admits(reads(node.op, static_cast<int>(i)), layout, type.dims, dtype_size(type.dtype)))
        return false;
    }
  }
  return true;
}

// Has what makes input i of a concatenation write it into the result, if it and all who read it
// besides can work on rows at a distance.
void place_part(Graph& graph, const Uses& uses, NodeId concat, int i) {
  const Node& node = graph.node(concat);
  const ValueId part = node.inputs[i];
  const Value& value = graph.value(part);
  const Layout layout = layout_in_concat(graph, concat, i);
  const Node& made = graph.producer(part);
  const bool is_leaf =
      made.inputs.empty() && !std::holds_alternative<Fill>(made.op);  // from outside
  const bool is_free = !is_leaf && !value.alias_of.valid() && !value.placed_in.valid() &&
                       !uses.is_output[part.index] &&
                       std::count(node.inputs.begin(), node.inputs.end(), part) == 1;
  if (is_free && admits(writes(made.op), layout, value.type.dims, dtype_size(value.type.dtype)) &&
      others_can_read(graph, uses, part, concat, layout))
    graph.place(part, node.outputs[0]);
}

// A result that is placed holds the memory of the whole concatenation from then on. That must not
// be long before the rest of it is made: nothing else may be computed in between.
void place_parts(Graph& graph, const Uses& uses, NodeId concat) {
  const std::vector<ValueId> parts = graph.node(concat).inputs;
  for (int32_t before = concat.index - 1; before >= 0; --before) {
    const Node& node = graph.node({before});
    int part = -1;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (graph.value(parts[i]).producer == NodeId{before}) part = static_cast<int>(i);
    }
    if (part >= 0) {
      place_part(graph, uses, concat, part);
    } else if (!node.inputs.empty() && !is_view(graph, node)) {
      return;
    }
  }
}

// Whether the concatenation is of parameters that lie as its parts would.
bool joins_parameters(const Graph& graph, const Uses& uses, NodeId concat, const Follows& follows) {
  const Node& node = graph.node(concat);
  const Parameter* before = nullptr;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId part = node.inputs[i];
    const auto* parameter = std::get_if<Parameter>(&graph.producer(part).op);
    if (parameter == nullptr || graph.value(part).placed_in.valid() ||
        (before != nullptr && !follows(*before, *parameter)) ||
        !others_can_read(graph, uses, part, concat,
                         layout_in_concat(graph, concat, static_cast<int>(i))))
      return false;
    before = parameter;
  }
  return std::get<Concat>(node.op).axis == 0;
}

void place_all_parts(Graph& graph, const Follows& follows) {
  const Uses uses(graph);
  for (auto i = static_cast<int32_t>(graph.nodes().size()) - 1; i >= 0; --i) {
    if (!std::holds_alternative<Concat>(graph.node({i}).op)) continue;
    if (follows && joins_parameters(graph, uses, {i}, follows)) {
      const Node node = graph.node({i});
      for (const ValueId part : node.inputs) graph.place(part, node.outputs[0]);
    } else {
      place_parts(graph, uses, {i});
    }
  }
}

// Writes the graph anew, with copies.
class CopyInserter {
 public:
  explicit CopyInserter(const Graph& source)
      : source_(source),
        uses_(source),
        map_(source.values().size()),
        copies_(source.values().size()) {}

  LoweredGraph run() {
    target_.set_tf32(source_.tf32());
    for (size_t i = 0; i < source_.nodes().size(); ++i) append({static_cast<int32_t>(i)});
    target_.set_scope(source_.scope());
    for (const GraphOutput& output : source_.outputs()) {
      const ValueId copy = copies_[output.value.index];
      const bool is_dense = lies_dense(output.value);
      target_.outputs().push_back({output.name, is_dense ? map_[output.value.index] : copy});
    }
    for (const auto& [part, concat] : placed_) target_.place(part, concat);
    return {std::move(target_), std::move(map_)};
  }

 private:
  // As the host reads it.
  bool lies_dense(ValueId value) const {
    const Value& v = source_.value(value);
    return is_dense(v.layout, v.type.dims);
  }

  // In the scope and phase and on the queue of the node that is being appended.
  std::vector<ValueId> emit(Op op, const std::vector<ValueId>& inputs) {
    auto outputs = target_.emit(std::move(op), inputs);
    Node& node = target_.node(target_.value(outputs[0]).producer);
    node.queue = queue_;
    node.phase = phase_;
    return outputs;
  }
  ValueId new_copy_of(ValueId value) { return emit(Copy{}, {map_[value.index]})[0]; }
  ValueId copy_of(ValueId value) {
    ValueId& copy = copies_[value.index];
    if (!copy.valid()) copy = new_copy_of(value);
    return copy;
  }

  void append(NodeId id) {
    const Node& node = source_.node(id);
    target_.set_scope(node.scope);
    queue_ = node.queue;
    phase_ = node.phase;
    const bool is_concat = std::holds_alternative<Concat>(node.op);
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      if (is_concat) {
        const bool placed = source_.value(input).placed_in == node.outputs[0];
        inputs.push_back(placed ? map_[input.index] : new_copy_of(input));
      } else {
        inputs.push_back(reads_in_place(source_, id, static_cast<int>(i)) ? map_[input.index]
                                                                          : copy_of(input));
      }
    }
    const auto outputs = emit(node.op, inputs);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const ValueId output = node.outputs[i];
      map_[output.index] = outputs[i];
      if (uses_.is_output[output.index] && !lies_dense(output)) copy_of(output);
    }
    if (is_concat) {
      for (const ValueId input : inputs) placed_.emplace_back(input, outputs[0]);
    }
  }

  const Graph& source_;
  Uses uses_;
  Graph target_;
  QueueId queue_ = QueueId::kCompute;
  Phase phase_ = Phase::kForward;
  std::vector<ValueId> map_;     // by value of the source
  std::vector<ValueId> copies_;  // likewise, where there is one
  std::vector<std::pair<ValueId, ValueId>> placed_;
};

}  // namespace

LoweredGraph lower_views(Graph graph, const Follows& follows) {
  place_all_parts(graph, follows);
  return CopyInserter(graph).run();
}

}  // namespace assay
