// Each pass rewrites the last node of its pattern, whose outputs keep their ids; the nodes before
// it are then read by nobody and go as dead code.
#include "sdk/passes/fuse_epilogue.h"

#include <numeric>

#include "sdk/passes/additions.h"
#include "sdk/passes/rewrite_each.h"

namespace assay {
namespace {

// Of what an activation can be joined to: where its kind is said, and whether what it is applied to
// can be kept beside its result.
struct Joint {
  ActivationKind* activation;
  bool* keep_pre;
};
Joint joint_of(Op& op) {
  if (auto* conv = std::get_if<Conv2d>(&op)) return {&conv->activation, &conv->keep_pre};
  if (auto* conv = std::get_if<Conv2dTranspose>(&op)) return {&conv->activation, nullptr};
  if (auto* matmul = std::get_if<Matmul>(&op)) return {&matmul->activation, &matmul->keep_pre};
  return {nullptr, nullptr};
}

// Of a gradient that something can be added to: where that is said. An activation multiplies what
// was added already.
bool* addend_of(Op& op) {
  auto* pool = std::get_if<MaxPoolGrad>(&op);
  if (pool != nullptr && pool->activation == ActivationKind::kNone) return &pool->has_addend;
  auto* rows = std::get_if<GatherRowsGrad>(&op);
  return rows == nullptr ? nullptr : &rows->has_addend;
}

// Joins the gradient of an activation to the node that makes what it multiplies, if that can.
bool join(Op& op, std::vector<ValueId>& inputs, ActivationKind kind, ValueId saved) {
  if (auto* conv = std::get_if<Conv2dGradData>(&op)) {
    if (conv->activation != ActivationKind::kNone) return false;
    conv->activation = kind;
    inputs.push_back(saved);
    return true;
  }
  auto* pool = std::get_if<MaxPoolGrad>(&op);
  if (pool == nullptr || pool->activation != ActivationKind::kNone || saved != inputs[0] ||
      !gradient_reads_output(kind))
    return false;
  pool->activation = kind;
  return true;
}

// Fuses the kinds that `may_fuse` allows; with `keep`, what others read as well as the activation
// becomes a second output.
bool fuse_activations(Graph& graph, bool (*may_fuse)(ActivationKind), bool keep) {
  Rewriter rewriter(graph);
  return rewrite_each(graph, [&](NodeId id) {
    const ActivationKind activation = activation_of(graph.node(id).op);
    if (activation == ActivationKind::kNone || !may_fuse(activation)) return false;
    const ValueId pre = graph.node(id).inputs[0];
    const NodeId anchor = graph.value(pre).producer;
    Op op = graph.node(anchor).op;
    const Joint joint = joint_of(op);
    if (joint.activation == nullptr || *joint.activation != ActivationKind::kNone) return false;
    const bool is_kept = !rewriter.uses().only_reader(pre, id);
    if (is_kept && (!keep || joint.keep_pre == nullptr)) return false;
    *joint.activation = activation;
    if (is_kept) *joint.keep_pre = true;
    const std::vector<ValueId> adopted(is_kept ? 1 : 0, pre);
    rewriter.rewrite(id, op, graph.node(anchor).inputs, adopted);
    return true;
  });
}

}  // namespace

// conv2d | conv2d_transpose | matmul ─▶ activation   ⇒   the first {activation}
// Saves a read and a write of the output. Before differentiation: leaves alone the kinds whose
// gradient reads what they are applied to.
bool fuse_activation(Graph& graph) { return fuse_activations(graph, gradient_reads_output, false); }

// conv2d | matmul ─▶ pre ─▶ activation   ⇒   conv2d | matmul {activation, keep_pre} ─▶ y, pre
// After differentiation, for those kinds: saves a read of what is kept. Where nobody but the
// activation reads it, as in predictors, it is not kept.
bool fuse_kept_activation(Graph& graph) {
  return fuse_activations(
      graph, [](ActivationKind kind) { return !gradient_reads_output(kind); }, true);
}

// max_pool_grad | gather_rows_grad ─▶ add   ⇒   the first {has_addend}
// Saves a read and a write of the sum, the zeros around an addend that has a border of them and, of
// a table, all rows that nobody asked for: in place of what a product gave them they are not
// touched.
bool fuse_gradient_addition(Graph& graph) {
  return fuse_additions(graph, [&](Rewriter& rewriter, NodeId add, ValueId y, ValueId addend) {
    Op fused = graph.producer(y).op;
    bool* has_addend = addend_of(fused);
    if (has_addend == nullptr || *has_addend || !rewriter.uses().only_reader(y, add)) return false;
    *has_addend = true;
    std::vector<ValueId> inputs = graph.producer(y).inputs;
    inputs.push_back(addend);
    rewriter.rewrite(add, fused, std::move(inputs));
    return true;
  });
}

// conv2d_grad_data | max_pool_grad ─▶ activation_grad   ⇒   the first {activation}
// Saves a read and a write of the gradient; behind a pool, whose input is the saved tensor, one
// more read.
bool fuse_activation_grad(Graph& graph) {
  const Uses uses(graph);
  return rewrite_each(graph, [&](NodeId id) {
    const ActivationKind kind = activation_grad_of(graph.node(id).op);
    if (kind == ActivationKind::kNone) return false;
    const ValueId saved = graph.node(id).inputs[0], dy = graph.node(id).inputs[1];
    if (!uses.only_reader(dy, id) || graph.type(saved) != graph.type(dy)) return false;
    Op op = graph.producer(dy).op;
    std::vector<ValueId> inputs = graph.producer(dy).inputs;
    if (!join(op, inputs, kind, saved)) return false;
    graph.rewrite(id, op, std::move(inputs));
    return true;
  });
}

namespace {

bool is_cast_to_f32(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  return is_cast(node.op) && graph.type(node.outputs[0]).dtype == DType::kF32;
}

// Whether `value`, read by nobody but `reader`, is a sum of products: conv2d_grad_weight | matmul.
bool is_sum_of_products(const Graph& graph, const Uses& uses, ValueId value, NodeId reader) {
  if (!uses.only_reader(value, reader) || graph.value(value).output != 0) return false;
  const NodeId id = graph.value(value).producer;
  const Node& node = graph.node(id);
  if (is_add(node.op)) {
    return is_sum_of_products(graph, uses, node.inputs[0], id) &&
           is_sum_of_products(graph, uses, node.inputs[1], id);
  }
  return std::holds_alternative<Conv2dGradWeight>(node.op) ||
         std::holds_alternative<Matmul>(node.op);
}

// The same sum with every term cast first. What is emitted is to stand behind what it takes the
// place of: `places` has that for each node, see Graph::sort.
ValueId sum_of_casts(Graph& graph, ValueId sum, std::vector<int32_t>& places) {
  const NodeId old = graph.value(sum).producer;
  ValueId result;
  if (is_add(graph.node(old).op)) {
    const std::vector<ValueId> terms = graph.node(old).inputs;
    const ValueId a = sum_of_casts(graph, terms[0], places);
    const ValueId b = sum_of_casts(graph, terms[1], places);
    graph.set_scope(graph.node(old).scope);
    result = add(graph, a, b);
  } else {
    graph.set_scope(graph.node(old).scope);
    result = cast(graph, sum, DType::kF32);
  }
  places.push_back(old.index);
  return result;
}

}  // namespace

// products (bf16) ─▶ add ─▶ cast f32   ⇒   products ─▶ casts f32 ─▶ add (f32)
// The gradient of a shared weight: the sum is not rounded to bf16, and the casts are joined to the
// products, or to the sum.
bool sum_gradients_in_f32(Graph& graph) {
  const Uses uses(graph);
  const auto n_nodes = static_cast<int32_t>(graph.nodes().size());
  std::vector<int32_t> places(graph.nodes().size());
  std::iota(places.begin(), places.end(), 0);
  bool changed = false;
  for (int32_t i = 0; i < n_nodes; ++i) {
    const NodeId id{i};
    if (!is_cast_to_f32(graph, id)) continue;
    const ValueId sum = graph.node(id).inputs[0];
    if (!is_add(graph.producer(sum).op) || !is_sum_of_products(graph, uses, sum, id)) continue;
    const std::vector<ValueId> terms = graph.producer(sum).inputs;
    const ValueId a = sum_of_casts(graph, terms[0], places);
    const ValueId b = sum_of_casts(graph, terms[1], places);
    graph.rewrite(id, Pointwise{add_code(), {}}, {a, b});
    changed = true;
  }
  graph.set_scope("");
  if (changed) graph.sort(places);
  return changed;
}

namespace {

// Gives the anchors of casts to f32 that `give_f32` takes an f32 result.
bool fuse_casts(Graph& graph, bool (*give_f32)(Op&)) {
  const Uses uses(graph);
  return rewrite_each(graph, [&](NodeId id) {
    if (!is_cast_to_f32(graph, id)) return false;
    const ValueId y = graph.node(id).inputs[0];
    if (graph.value(y).output != 0 || !uses.only_reader(y, id)) return false;
    const NodeId anchor = graph.value(y).producer;
    Op op = graph.node(anchor).op;
    if (!give_f32(op)) return false;
    const auto& outputs = graph.node(anchor).outputs;
    const std::vector<ValueId> others(outputs.begin() + 1, outputs.end());
    graph.rewrite(id, op, graph.node(anchor).inputs, others);
    return true;
  });
}

template <class Product>
bool give_f32(Op& op) {
  auto* product = std::get_if<Product>(&op);
  if (product != nullptr) product->dtype = DType::kF32;
  return product != nullptr;
}

}  // namespace

// matmul (bf16) ─▶ cast f32   ⇒   matmul with an f32 result
// The product is accumulated in f32 anyway: keeps its bits, saves the cast.
bool fuse_product_cast(Graph& graph) { return fuse_casts(graph, give_f32<Matmul>); }

// The same of conv2d_grad_weight, on devices whose kernels can give another type than they read.
bool fuse_gradient_cast(Graph& graph) { return fuse_casts(graph, give_f32<Conv2dGradWeight>); }

}  // namespace assay
