// The graph's storage and what changes it, and where values lie.
#include "sdk/graph/graph.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "sdk/graph/infer_ctx.h"
#include "sdk/graph/node_view.h"

namespace assay {

std::string to_text(const ValueType& type) { return cat(type.dtype, type.dims); }

std::string to_text(const Initializer& initializer) {
  constexpr std::string_view kNames[] = {"constant", "uniform", "normal", "truncated_normal"};
  return cat(kNames[static_cast<size_t>(initializer.kind)], "(", initializer.a, ")");
}

std::string_view to_text(Phase phase) {
  constexpr std::string_view kNames[] = {"forward", "backward", "update"};
  return kNames[static_cast<size_t>(phase)];
}

namespace {

std::vector<InferCtx::Output> infer_types(const Graph& graph, const Op& op,
                                          std::span<const ValueId> inputs,
                                          const std::string& scope) {
  for (const ValueId input : inputs) {
    require(input.valid() && input.index < static_cast<int>(graph.values().size()), Code::kInternal,
            op_name(op), " at ", scope, ": input id ", input.index, " does not exist");
  }
  InferCtx context(graph, op, inputs, scope);
  std::visit([&](const auto& o) { infer(o, context); }, op);
  return context.results();
}

}  // namespace

std::vector<ValueId> Graph::emit(Op op, std::span<const ValueId> inputs) {
  const auto types = infer_types(*this, op, inputs, scope_);
  const NodeId id{static_cast<int32_t>(nodes_.size())};
  Node node{std::move(op), {inputs.begin(), inputs.end()}, {}, scope_};
  node.phase = phase_;
  for (const ValueId input : inputs) node.phase = std::max(node.phase, producer(input).phase);
  for (size_t i = 0; i < types.size(); ++i) {
    node.outputs.push_back({static_cast<int32_t>(values_.size())});
    const ValueId alias = types[i].alias < 0 ? ValueId{} : inputs[types[i].alias];
    values_.push_back({types[i].type, id, static_cast<int32_t>(i), alias, {}, types[i].layout});
  }
  nodes_.push_back(std::move(node));
  return nodes_.back().outputs;
}

ValueId Graph::output(std::string_view name) const {
  for (const GraphOutput& output : outputs_) {
    if (output.name == name) return output.value;
  }
  return {};
}

void Graph::rewrite(NodeId id, Op op, std::vector<ValueId> inputs, std::span<const ValueId> adopt) {
  Node& target = node(id);
  const auto types = infer_types(*this, op, inputs, target.scope);
  for (const ValueId value : adopt) {
    auto& old = node(values_[value.index].producer).outputs;
    old.erase(std::remove(old.begin(), old.end(), value), old.end());
    target.outputs.push_back(value);
  }
  require(types.size() >= target.outputs.size(), Code::kInternal, op_name(op), " at ", target.scope,
          ": rewrite leaves ", types.size(), " outputs for ", target.outputs.size());
  while (target.outputs.size() < types.size()) {
    target.outputs.push_back({static_cast<int32_t>(values_.size())});
    values_.push_back({types[target.outputs.size() - 1].type, id, 0, {}, {}, {}});
  }
  // Readers know values by id, so the values stay; only what is said of them is new.
  bool moved = false;
  for (size_t i = 0; i < types.size(); ++i) {
    Value& value = values_[target.outputs[i].index];
    require(value.type == types[i].type, Code::kInternal, op_name(op), " at ", target.scope,
            ": rewrite changes ", value.type, " to ", types[i].type);
    value.producer = id;
    value.output = static_cast<int32_t>(i);
    value.alias_of = types[i].alias < 0 ? ValueId{} : inputs[types[i].alias];
    moved = moved || value.layout != types[i].layout;
    value.layout = types[i].layout;
  }
  target.op = std::move(op);
  target.inputs = std::move(inputs);
  if (moved) lay_out();
}

ValueId Graph::root(ValueId id) const {
  for (;;) {
    const Value& v = value(id);
    if (!v.alias_of.valid() && !v.placed_in.valid()) return id;
    id = v.alias_of.valid() ? v.alias_of : v.placed_in;
  }
}

void Graph::place(ValueId value, ValueId concat) {
  values_[value.index].placed_in = concat;
  lay_out();
}

// What values are placed in comes later, what they are views of comes earlier.
void Graph::lay_out() {
  for (size_t i = nodes_.size(); i-- > 0;) {
    for (const ValueId output : nodes_[i].outputs) {
      Value& v = values_[output.index];
      if (v.alias_of.valid()) continue;
      if (!v.placed_in.valid()) {
        v.layout = dense_layout(v.type.dims);
        continue;
      }
      const NodeId concat = value(v.placed_in).producer;
      const auto& parts = node(concat).inputs;
      const auto part = std::find(parts.begin(), parts.end(), output);
      require(std::holds_alternative<Concat>(node(concat).op) && part != parts.end(),
              Code::kInternal, "%", output.index, " is no part of %", v.placed_in.index);
      v.layout = layout_in_concat(*this, concat, static_cast<int>(part - parts.begin()));
    }
  }
  for (const Node& node : nodes_) {
    const auto is_view = [&](ValueId output) { return value(output).alias_of.valid(); };
    if (std::none_of(node.outputs.begin(), node.outputs.end(), is_view)) continue;
    const auto types = infer_types(*this, node.op, node.inputs, node.scope);
    for (size_t i = 0; i < types.size(); ++i) {
      if (is_view(node.outputs[i])) values_[node.outputs[i].index].layout = types[i].layout;
    }
  }
}

void Graph::remove_dead_nodes() {
  std::vector<bool> live(nodes_.size(), false);
  std::vector<NodeId> work;
  const auto mark = [&](NodeId id) {
    if (!live[id.index]) {
      live[id.index] = true;
      work.push_back(id);
    }
  };
  for (const GraphOutput& output : outputs_) mark(value(output.value).producer);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (is_update(nodes_[i].op)) mark({static_cast<int32_t>(i)});
  }
  while (!work.empty()) {
    const NodeId id = work.back();
    work.pop_back();
    for (const ValueId input : node(id).inputs) mark(value(input).producer);
  }
  std::vector<ValueId> new_value(values_.size());
  std::vector<Node> nodes;
  std::vector<Value> values;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!live[i]) continue;
    const NodeId id{static_cast<int32_t>(nodes.size())};
    for (const ValueId output : nodes_[i].outputs) {
      new_value[output.index] = {static_cast<int32_t>(values.size())};
      values.push_back(values_[output.index]);
      values.back().producer = id;
    }
    nodes.push_back(std::move(nodes_[i]));
  }
  const auto renumber = [&](ValueId& id) { id = new_value[id.index]; };
  for (Node& node : nodes) {
    std::for_each(node.inputs.begin(), node.inputs.end(), renumber);
    std::for_each(node.outputs.begin(), node.outputs.end(), renumber);
  }
  for (Value& value : values) {
    if (value.alias_of.valid()) renumber(value.alias_of);
    if (value.placed_in.valid()) renumber(value.placed_in);
  }
  for (GraphOutput& output : outputs_) renumber(output.value);
  nodes_ = std::move(nodes);
  values_ = std::move(values);
}

void Graph::sort(std::span<const int32_t> places) {
  std::vector<int> missing(nodes_.size(), 0);
  std::vector<std::vector<int>> readers(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    for (const ValueId input : nodes_[i].inputs) {
      readers[value(input).producer.index].push_back(static_cast<int>(i));
      ++missing[i];
    }
  }
  using Ready = std::pair<int32_t, int>;  // place and index
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
  const auto push = [&](int i) {
    ready.push({places.empty() ? i : places[static_cast<size_t>(i)], i});
  };
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (missing[i] == 0) push(static_cast<int>(i));
  }
  std::vector<Node> sorted;
  while (!ready.empty()) {
    const int i = ready.top().second;
    ready.pop();
    for (const ValueId output : nodes_[i].outputs) {
      values_[output.index].producer = {static_cast<int32_t>(sorted.size())};
    }
    sorted.push_back(nodes_[i]);
    for (const int reader : readers[i]) {
      if (--missing[reader] == 0) push(reader);
    }
  }
  require(sorted.size() == nodes_.size(), Code::kInternal, "graph has a cycle");
  nodes_ = std::move(sorted);
}

std::string_view op_name(const Op& op) {
  return std::visit([](const auto& o) { return std::decay_t<decltype(o)>::kName; }, op);
}

Layout layout_in_concat(const Graph& graph, NodeId concat, int i) {
  const Node& node = graph.node(concat);
  const auto axis = static_cast<int>(std::get<Concat>(node.op).axis);
  Dims begin = graph.type(node.outputs[0]).dims;
  for (int k = 0; k < begin.rank(); ++k) begin[k] = 0;
  for (int k = 0; k < i; ++k) begin[axis] += graph.type(node.inputs[k]).dims[axis];
  return slice_layout(graph.value(node.outputs[0]).layout, begin);
}

Access reads(const Op& op, int input) {
  return std::visit(
      [input](const auto& o) {
        if constexpr (requires { o.reads(input); }) return o.reads(input);
        return Access{};
      },
      op);
}

Access writes(const Op& op) {
  return std::visit(
      [](const auto& o) {
        if constexpr (requires { o.kWrites; }) return o.kWrites;
        return Access{};
      },
      op);
}

bool reads_in_place(const Graph& graph, NodeId id, int i) {
  const Node& node = graph.node(id);
  const Value& x = graph.value(node.inputs[i]);
  const auto* reshape = std::get_if<Reshape>(&node.op);
  if (reshape != nullptr)
    return !x.layout.border && reshape_layout(x.layout, x.type.dims, reshape->dims).has_value();
  return admits(reads(node.op, i), x.layout, x.type.dims, dtype_size(x.type.dtype));
}

bool is_update(const Op& op) {
#define ASSAY_IS(Name) || std::holds_alternative<Name>(op)
  return false ASSAY_UPDATE_OPS(ASSAY_IS);
#undef ASSAY_IS
}

NodeFacts facts_of(const Graph& graph, NodeId node) {
  const NodeView view(graph, node);
  return std::visit([&](const auto& op) { return facts(op, view); }, graph.node(node).op);
}

}  // namespace assay
