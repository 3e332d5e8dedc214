#include "sdk/passes/fuse_epilogue.h"

#include "sdk/passes/additions.h"

namespace assay {
namespace {

// Kinds whose gradient reads y, so that nothing but the fused output must be kept for the backward.
bool gradient_reads_output(ActivationKind kind) {
  return kind == ActivationKind::kRelu || kind == ActivationKind::kElu ||
         kind == ActivationKind::kTanh || kind == ActivationKind::kSigmoid;
}

ActivationKind* activation_of(Op& op) {
  if (auto* conv = std::get_if<Conv2d>(&op)) return &conv->activation;
  if (auto* conv = std::get_if<Conv2dTranspose>(&op)) return &conv->activation;
  if (auto* matmul = std::get_if<Matmul>(&op)) return &matmul->activation;
  return nullptr;
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

}  // namespace

// conv2d | matmul ─▶ activation   ⇒   conv2d | matmul {activation}
// Saves a read and a write of the output.
bool fuse_activation(Graph& graph) {
  const Uses uses(graph);
  bool changed = false;
  for (int32_t i = 0; i < static_cast<int32_t>(graph.nodes().size()); ++i) {
    const NodeId id{i};
    const auto* activation = std::get_if<Activation>(&graph.node(id).op);
    if (activation == nullptr || !gradient_reads_output(activation->kind)) continue;
    const ValueId y = graph.node(id).inputs[0];
    const NodeId anchor = graph.value(y).producer;
    Op op = graph.node(anchor).op;
    ActivationKind* kind = activation_of(op);
    if (kind == nullptr || *kind != ActivationKind::kNone || !uses.only_reader(y, id)) continue;
    *kind = activation->kind;
    graph.rewrite(id, op, graph.node(anchor).inputs);
    changed = true;
  }
  return changed;
}

// max_pool_grad ─▶ add   ⇒   max_pool_grad {has_addend}
// Saves a read and a write of the sum, and the zeros around an addend that has a border of them.
bool fuse_gradient_addition(Graph& graph) {
  return fuse_additions(graph, [&](const Uses& uses, NodeId add, ValueId y, ValueId addend) {
    const auto* pool = std::get_if<MaxPoolGrad>(&graph.producer(y).op);
    if (pool == nullptr || pool->has_addend || pool->activation != ActivationKind::kNone ||
        !uses.only_reader(y, add))
      return false;
    MaxPoolGrad fused = *pool;
    fused.has_addend = true;
    std::vector<ValueId> inputs = graph.producer(y).inputs;
    inputs.push_back(addend);
    graph.rewrite(add, fused, std::move(inputs));
    return true;
  });
}

// conv2d_grad_data | max_pool_grad ─▶ activation_grad   ⇒   the first {activation}
// Saves a read and a write of the gradient; behind a pool, whose input is the saved tensor, one
// more read.
bool fuse_activation_grad(Graph& graph) {
  const Uses uses(graph);
  bool changed = false;
  for (int32_t i = 0; i < static_cast<int32_t>(graph.nodes().size()); ++i) {
    const NodeId id{i};
    const auto* gradient = std::get_if<ActivationGrad>(&graph.node(id).op);
    if (gradient == nullptr) continue;
    const ValueId saved = graph.node(id).inputs[0], dy = graph.node(id).inputs[1];
    if (!uses.only_reader(dy, id)) continue;
    Op op = graph.producer(dy).op;
    std::vector<ValueId> inputs = graph.producer(dy).inputs;
    if (!join(op, inputs, gradient->kind, saved)) continue;
    graph.rewrite(id, op, std::move(inputs));
    changed = true;
  }
  return changed;
}

namespace {

// Whether `value`, read by nobody but `reader`, is a sum of products: conv2d_grad_weight | matmul.
bool is_sum_of_products(const Graph& graph, const Uses& uses, ValueId value, NodeId reader) {
  if (!uses.only_reader(value, reader) || graph.value(value).output != 0) return false;
  const NodeId id = graph.value(value).producer;
  const Node& node = graph.node(id);
  if (std::holds_alternative<Add>(node.op)) {
    return is_sum_of_products(graph, uses, node.inputs[0], id) &&
           is_sum_of_products(graph, uses, node.inputs[1], id);
  }
  return std::holds_alternative<Conv2dGradWeight>(node.op) ||
         std::holds_alternative<Matmul>(node.op);
}

// The same sum with every term cast first.
ValueId sum_of_casts(Graph& graph, ValueId sum) {
  if (!std::holds_alternative<Add>(graph.producer(sum).op))
    return graph.emit1(Cast{DType::kF32}, {sum});
  const std::vector<ValueId> terms = graph.producer(sum).inputs;
  return graph.emit1(Add{}, {sum_of_casts(graph, terms[0]), sum_of_casts(graph, terms[1])});
}

}  // namespace

// products (bf16) ─▶ add ─▶ cast f32   ⇒   products ─▶ casts f32 ─▶ add (f32)
// The gradient of a shared weight: the sum is not rounded to bf16, and fuse_gradient_cast takes the
// casts away.
bool sum_gradients_in_f32(Graph& graph) {
  const Uses uses(graph);
  const auto n_nodes = static_cast<int32_t>(graph.nodes().size());
  bool changed = false;
  for (int32_t i = 0; i < n_nodes; ++i) {
    const NodeId id{i};
    const auto* cast = std::get_if<Cast>(&graph.node(id).op);
    if (cast == nullptr || cast->dtype != DType::kF32) continue;
    const ValueId sum = graph.node(id).inputs[0];
    if (!std::holds_alternative<Add>(graph.producer(sum).op) ||
        !is_sum_of_products(graph, uses, sum, id))
      continue;
    graph.set_scope(graph.node(id).scope);
    const std::vector<ValueId> terms = graph.producer(sum).inputs;
    const ValueId a = sum_of_casts(graph, terms[0]), b = sum_of_casts(graph, terms[1]);
    graph.rewrite(id, Add{}, {a, b});
    changed = true;
  }
  graph.set_scope("");
  return changed;
}

// conv2d_grad_weight | matmul (bf16) ─▶ cast f32   ⇒   the same with an f32 result
// The product is accumulated in f32 anyway: keeps its bits, saves the cast.
bool fuse_gradient_cast(Graph& graph) {
  const Uses uses(graph);
  bool changed = false;
  for (int32_t i = 0; i < static_cast<int32_t>(graph.nodes().size()); ++i) {
    const NodeId id{i};
    const auto* cast = std::get_if<Cast>(&graph.node(id).op);
    if (cast == nullptr || cast->dtype != DType::kF32) continue;
    const ValueId y = graph.node(id).inputs[0];
    if (graph.value(y).output != 0 || !uses.only_reader(y, id)) continue;
    const NodeId anchor = graph.value(y).producer;
    Op op = graph.node(anchor).op;
    if (auto* conv = std::get_if<Conv2dGradWeight>(&op)) {
      conv->dtype = DType::kF32;
    } else if (auto* matmul = std::get_if<Matmul>(&op)) {
      matmul->dtype = DType::kF32;
    } else {
      continue;
    }
    const auto& outputs = graph.node(anchor).outputs;
    const std::vector<ValueId> others(outputs.begin() + 1, outputs.end());
    graph.rewrite(id, op, graph.node(anchor).inputs, others);
    changed = true;
  }
  return changed;
}

}  // namespace assay
