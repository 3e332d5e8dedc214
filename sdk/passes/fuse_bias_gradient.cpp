#include "sdk/passes/fuse_bias_gradient.h"

#include "sdk/graph/elementwise.h"
#include "sdk/graph/uses.h"
#include "sdk/passes/rewrite_each.h"

namespace assay {
namespace {

// conv2d_grad_data{relu} ─▶ dx ─▶ conv2d_grad_weight{has_bias} ─▶ dw, dbias
//   ⇒ conv2d_grad_data{relu, keep_sums} ─▶ dx, dbias;  dx ─▶ conv2d_grad_weight ─▶ dw
// Saves a read of dx where relu's derivative is a pass of its own, and that pass where cuDNN takes
// along derivative and sums (decisions/0020).
bool fuse_into_data_gradient(Graph& graph, NodeId id) {
  const auto* p = std::get_if<Conv2dGradWeight>(&graph.node(id).op);
  if (p == nullptr || !p->has_bias) return false;
  const ValueId dy = graph.node(id).inputs[1], dbias = graph.node(id).outputs[1];
  const NodeId producer = graph.value(dy).producer;
  const auto* d = std::get_if<Conv2dGradData>(&graph.node(producer).op);
  if (d == nullptr || d->activation != ActivationKind::kRelu || d->keep_sums) return false;
  Conv2dGradData data = *d;
  data.keep_sums = true;
  Conv2dGradWeight weight = *p;
  weight.has_bias = false;
  const std::vector<ValueId> adopted{dbias};
  graph.rewrite(producer, data, graph.node(producer).inputs, adopted);
  graph.rewrite(id, weight, graph.node(id).inputs);
  return true;
}

// activation_grad | layer_norm_grad ─▶ dx ─▶ sum_to [C]
//   ⇒ activation_grad_sums | layer_norm_grad{keep_sums} ─▶ dx, sums
// Saves a read of dx, and a launch.
bool fuse_sum_of_rows(Graph& graph, NodeId id) {
  const Node& sum = graph.node(id);
  if (!std::holds_alternative<SumTo>(sum.op) || sum.inputs.size() != 1) return false;
  const ValueId dx = sum.inputs[0], dbias = sum.outputs[0];
  const ValueType& type = graph.type(dx);
  if (type.dims.rank() < 2 || graph.type(dbias).dims != Dims{type.dims.back()}) return false;
  const NodeId producer = graph.value(dx).producer;
  const Node& node = graph.node(producer);
  const std::vector<ValueId> inputs = node.inputs, adopted{dbias};
  if (const auto* norm = std::get_if<LayerNormGrad>(&node.op)) {
    if (norm->keep_sums || dx != node.outputs[static_cast<size_t>(norm->dx_output())]) return false;
    LayerNormGrad summed = *norm;
    summed.keep_sums = true;
    graph.rewrite(producer, summed, inputs, adopted);
    return true;
  }
  const ActivationKind kind = activation_grad_of(node.op);
  const auto is_like_dx = [&](ValueId x) {  // and no view: it would have to be copied
    return graph.type(x) == type && is_dense(graph.value(x).layout, type.dims);
  };
  if (kind == ActivationKind::kNone || !is_like_dx(inputs[0]) || !is_like_dx(inputs[1]))
    return false;
  graph.rewrite(producer, ActivationGradSums{kind}, inputs, adopted);
  return true;
}

}  // namespace

bool fuse_bias_gradient(Graph& graph) {
  return rewrite_each(graph, [&](NodeId id) {
    return fuse_into_data_gradient(graph, id) || fuse_sum_of_rows(graph, id);
  });
}

}  // namespace assay
