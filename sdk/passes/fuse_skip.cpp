#include "sdk/passes/fuse_skip.h"

#include "sdk/passes/additions.h"

namespace assay {
namespace {

// Whether a box of `dims` at `begin` fills these axes of a tensor [N,H,W,C].
bool fills(const Dims& begin, const Dims& dims, const Dims& whole,
           std::initializer_list<int> axes) {
  for (const int axis : axes) {
    if (begin[axis] != 0 || dims[axis] != whole[axis]) return false;
  }
  return whole.rank() == 4;
}

// What a slice of rows and columns was cut out of; `x` itself if it is no such slice.
ValueId before_crop(const Graph& graph, ValueId x, std::array<int64_t, 2>& crop) {
  const Node& node = graph.producer(x);
  const auto* slice = std::get_if<Slice>(&node.op);
  if (slice == nullptr ||
      !fills(slice->begin, slice->dims, graph.type(node.inputs[0]).dims, {0, 3}))
    return x;
  crop = {slice->begin[1], slice->begin[2]};
  return node.inputs[0];
}

// The gradient that `other` places in zeros or cuts out of others, if it does that for `reader`
// alone; what it does goes into `p`.
ValueId before_placing(const Graph& graph, const Uses& uses, ValueId other, NodeId reader,
                       MaxPoolGrad& p) {
  NodeId producer = graph.value(other).producer;
  const auto* placed = std::get_if<SliceGrad>(&graph.node(producer).op);
  if (placed != nullptr && uses.only_reader(other, reader)) {
    const ValueId part = graph.node(producer).inputs[0];
    if (!fills(placed->begin, graph.type(part).dims, placed->x_dims, {0, 3})) return other;
    p.crop = {placed->begin[1], placed->begin[2]};
    other = part, reader = producer;
    producer = graph.value(other).producer;
  }
  const auto* slice = std::get_if<Slice>(&graph.node(producer).op);
  if (slice == nullptr || !uses.only_reader(other, reader)) return other;
  const ValueId whole = graph.node(producer).inputs[0];
  if (!fills(slice->begin, slice->dims, graph.type(whole).dims, {0, 1, 2})) return other;
  p.channel = slice->begin[3];
  return whole;
}

}  // namespace

// conv2d_transpose, (slice) ─▶ concat   ⇒   conv2d_transpose {has_beside}
// Saves a read and a write of both parts: each goes to its place at once.
bool fuse_skip_concat(Graph& graph) {
  const Uses uses(graph);
  bool changed = false;
  for (int32_t i = 0; i < static_cast<int32_t>(graph.nodes().size()); ++i) {
    const NodeId id{i};
    const Node& node = graph.node(id);
    const auto* concat = std::get_if<Concat>(&node.op);
    if (concat == nullptr || concat->axis != 3 || node.inputs.size() != 2) continue;
    const ValueId y = node.inputs[0];
    const auto* conv = std::get_if<Conv2dTranspose>(&graph.producer(y).op);
    if (conv == nullptr || conv->has_beside || !uses.only_reader(y, id)) continue;
    Conv2dTranspose fused = *conv;
    fused.has_beside = true;
    std::vector<ValueId> inputs = graph.producer(y).inputs;
    inputs.push_back(before_crop(graph, node.inputs[1], fused.crop));
    graph.rewrite(id, fused, std::move(inputs));
    changed = true;
  }
  return changed;
}

// max_pool_grad, (slice ─▶ slice_grad) ─▶ add   ⇒   max_pool_grad {has_other}
// Saves the zeros around the crop, and a read and a write of the sum and of both its parts.
bool fuse_skip_gradient(Graph& graph) {
  return fuse_additions(graph, [&](const Uses& uses, NodeId add, ValueId y, ValueId other) {
    const auto* pool = std::get_if<MaxPoolGrad>(&graph.producer(y).op);
    if (pool == nullptr || pool->has_other || pool->activation != ActivationKind::kNone ||
        !uses.only_reader(y, add))
      return false;
    MaxPoolGrad fused = *pool;
    fused.has_other = true;
    std::vector<ValueId> inputs = graph.producer(y).inputs;
    inputs.push_back(before_placing(graph, uses, other, add, fused));
    graph.rewrite(add, fused, std::move(inputs));
    return true;
  });
}

}  // namespace assay
