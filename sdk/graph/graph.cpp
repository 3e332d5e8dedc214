// The graph's storage and what changes it, where values lie, and what an op sees while its types
// and its gradient are made.
#include "sdk/graph/graph.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "sdk/graph/elementwise.h"
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

void Graph::sort() {
  std::vector<int> missing(nodes_.size(), 0);
  std::vector<std::vector<int>> readers(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    for (const ValueId input : nodes_[i].inputs) {
      readers[value(input).producer.index].push_back(static_cast<int>(i));
      ++missing[i];
    }
  }
  // Of the nodes that are ready always the one that stood first: only those that must move do.
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (missing[i] == 0) ready.push(static_cast<int>(i));
  }
  std::vector<Node> sorted;
  while (!ready.empty()) {
    const int i = ready.top();
    ready.pop();
    for (const ValueId output : nodes_[i].outputs) {
      values_[output.index].producer = {static_cast<int32_t>(sorted.size())};
    }
    sorted.push_back(nodes_[i]);
    for (const int reader : readers[i]) {
      if (--missing[reader] == 0) ready.push(reader);
    }
  }
  require(sorted.size() == nodes_.size(), Code::kInternal, "graph has a cycle");
  nodes_ = std::move(sorted);
}

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

// ---- InferCtx ----

const ValueType& InferCtx::x(int i) const {
  require(i < n(), "needs more than ", n(), " inputs");
  return graph_.type(inputs_[i]);
}

// Beyond any machine's address space, and far from where sums of sizes overflow.
void InferCtx::y(ValueType type, int alias) {
  constexpr int64_t kMostBytes = int64_t{1} << 47;
  auto bytes = static_cast<int64_t>(dtype_size(type.dtype));
  for (const int64_t size : type.dims.span()) {
    require(size >= 0 && !__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes) &&
                bytes <= kMostBytes,
            "the result would be ", type, ", which no memory can hold");
  }
  results_.push_back({type, alias, alias < 0 ? dense_layout(type.dims) : layout(alias)});
}

void InferCtx::view(ValueType type, Layout layout) {
  results_.push_back({type, 0, std::move(layout)});
}

Layout InferCtx::layout(int i) const {
  const Value& value = graph_.value(inputs_[i]);
  return value.layout.border ? dense_layout(value.type.dims) : value.layout;
}

namespace {

std::string place(const Op& op, const std::string& scope) {
  return cat(op_name(op), scope.empty() ? "" : " at ", scope);
}

}  // namespace

void InferCtx::fail_here(const std::string& message) const {
  fail(Code::kInvalid, cat(place(op_, scope_), ": ", message), {.op_path = scope_});
}

void InferCtx::require_inputs(int least, int most) const {
  if (most < 0) most = least;
  require(n() >= least && n() <= most, "takes ", least, least == most ? "" : cat(" to ", most),
          " inputs, got ", n());
}

void InferCtx::require_dims(int i, const Dims& expected) const {
  if (x(i).dims == expected) return;
  const std::string actual = to_text(x(i).dims), wanted = to_text(expected);
  fail(Code::kInvalid,
       cat(place(op_, scope_), ": input ", i, " has shape ", actual, ", expected ", wanted),
       {.op_path = scope_, .expected = wanted, .actual = actual});
}

void InferCtx::require_dtype(int i, DType expected) const {
  if (x(i).dtype == expected) return;
  const std::string actual(to_text(x(i).dtype)), wanted(to_text(expected));
  fail(Code::kInvalid,
       cat(place(op_, scope_), ": input ", i, " is ", actual, ", expected ", wanted),
       {.op_path = scope_, .expected = wanted, .actual = actual});
}

void InferCtx::require_data_type(int i) const {
  const DType dtype = x(i).dtype;
  if (is_data_type(dtype)) return;
  const std::string actual(to_text(dtype)), wanted = "f32, bf16 or f16";
  fail(Code::kInvalid,
       cat(place(op_, scope_), ": input ", i, " is ", actual, ", expected ", wanted),
       {.op_path = scope_, .expected = wanted, .actual = actual});
}

// ---- GradCtx ----

namespace {

// A part of a gradient whose other elements are zero.
struct GradientPart {
  ValueId value;
  Dims begin, dims;
};

// The axis along which the parts of `whole`, put into their order, follow each other from one end
// to the other; -1 if they do not.
int axis_filled_by(std::vector<GradientPart>& parts, const Dims& whole) {
  int axis = 0;
  while (axis + 1 < whole.rank() && parts[0].dims[axis] == whole[axis]) ++axis;
  std::sort(parts.begin(), parts.end(), [axis](const GradientPart& a, const GradientPart& b) {
    return a.begin[axis] < b.begin[axis];
  });
  int64_t filled = 0;
  for (const GradientPart& part : parts) {
    Dims expected = whole, begin = part.begin;
    expected[axis] = part.dims[axis];
    for (int k = 0; k < whole.rank(); ++k) begin[k] = k == axis ? filled : 0;
    if (part.begin != begin || part.dims != expected) return -1;
    filled += part.dims[axis];
  }
  return filled == whole[axis] ? axis : -1;
}

// The gradients of slices as one concatenation, which needs neither zeros nor sums.
ValueId concatenated(Graph& graph, const std::vector<ValueId>& list) {
  std::vector<GradientPart> parts;
  for (const ValueId gradient : list) {
    const Node& node = graph.producer(gradient);
    const auto* placed = std::get_if<SliceGrad>(&node.op);
    if (placed == nullptr) return {};
    parts.push_back({node.inputs[0], placed->begin, graph.type(node.inputs[0]).dims});
  }
  const Dims whole = graph.type(list[0]).dims;
  const int axis = whole.rank() == 0 ? -1 : axis_filled_by(parts, whole);
  if (axis < 0) return {};
  std::vector<ValueId> values;
  for (const GradientPart& part : parts) values.push_back(part.value);
  return graph.emit(Concat{axis}, values)[0];
}

}  // namespace

ValueId sum_contributions(Graph& graph, std::vector<ValueId>& list) {
  if (list.size() == 1) return list[0];
  ValueId sum = concatenated(graph, list);
  if (!sum.valid()) {
    sum = list[0];
    for (size_t i = 1; i < list.size(); ++i) sum = add(graph, sum, list[i]);
  }
  list = {sum};
  return sum;
}

ValueId GradCtx::dy(int i) {
  auto& list = contributions_[y(i).index];
  require(!list.empty(), Code::kInternal, op_name(graph_.node(node_).op), ": output ", i,
          " has no gradient");
  used_ |= uint64_t{1} << i;
  return sum_contributions(graph_, list);
}

void GradCtx::dx(int i, ValueId gradient) {
  if (!wants(i)) return;
  require(type(gradient) == type(x(i)), Code::kInternal, op_name(graph_.node(node_).op),
          ": gradient of input ", i, " is ", type(gradient), ", expected ", type(x(i)));
  contributions_[x(i).index].push_back(gradient);
}

}  // namespace assay
