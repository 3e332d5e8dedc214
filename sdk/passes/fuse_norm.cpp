// Each pass rewrites the last node of its pattern; the nodes before it go as dead code.
#include "sdk/passes/fuse_norm.h"

#include <algorithm>
#include <optional>

#include "sdk/passes/additions.h"
#include "sdk/passes/rewrite_each.h"

namespace assay {
namespace {

// The node's normalisation, as either form, through a common view of what can be joined to it.
struct NormFlags {
  ActivationKind* activation;
  bool* has_residual;
  bool trains;

  bool is_plain() const { return activation != nullptr && *activation == ActivationKind::kNone; }
  bool can_end_in(ActivationKind kind) const {
    if (kind == ActivationKind::kRelu) return true;
    // In training its gradient would need the sum with the residual, which nobody keeps.
    return kind == ActivationKind::kSwish && !(trains && *has_residual);
  }
};
NormFlags norm_flags(Op& op) {
  if (auto* p = std::get_if<BatchNorm>(&op)) return {&p->activation, &p->has_residual, true};
  if (auto* p = std::get_if<BatchNormInference>(&op))
    return {&p->activation, &p->has_residual, false};
  return {nullptr, nullptr, false};
}

// Outputs of a normalisation beside y: batch mean and variance, which move with it.
std::vector<ValueId> statistics_of(const Node& node) {
  return {node.outputs.begin() + 1, node.outputs.end()};
}

// Whether cuDNN has compiled kernels that sum up what this convolution, or its data gradient,
// gives: for f16, channels in whole packs, no groups, and windows of up to 5x5 (decisions/0020).
bool sums_up(const ValueType& w, const ConvGeometry& geometry) {
  constexpr int64_t kPack = 8, kMostTaps = 25;
  return w.dtype == DType::kF16 && geometry.groups == 1 && w.dims[0] % kPack == 0 &&
         w.dims[3] % kPack == 0 && w.dims[1] * w.dims[2] <= kMostTaps;
}

// Has the nodes read, in the place of the first of each pair, the second.
void replace_values(Graph& graph, std::span<const std::pair<ValueId, ValueId>> replaced) {
  std::vector<ValueId> now(graph.values().size());  // invalid: not replaced
  for (const auto& [old, fresh] : replaced) now[static_cast<size_t>(old.index)] = fresh;
  for (int32_t i = 0; i < static_cast<int32_t>(graph.nodes().size()); ++i) {
    std::vector<ValueId> inputs = graph.node({i}).inputs;
    for (ValueId& input : inputs)
      if (const ValueId fresh = now[static_cast<size_t>(input.index)]; fresh.valid()) input = fresh;
    if (inputs == graph.node({i}).inputs) continue;
    const Op op = graph.node({i}).op;
    graph.rewrite({i}, op, std::move(inputs));
  }
}

// A normalisation that nothing is joined to yet, as what is added to another one.
const BatchNorm* plain_norm(const Node& node, float epsilon) {
  const auto* p = std::get_if<BatchNorm>(&node.op);
  const bool is_plain = p != nullptr && p->activation == ActivationKind::kNone &&
                        !p->has_residual && p->epsilon == epsilon;
  return is_plain ? p : nullptr;
}

ValueId difference(Graph& graph, ValueId a, ValueId b) {
  const PointwiseCode code(PointwiseFn::kSub,
                           {PointwiseOperand::input(0), PointwiseOperand::input(1)});
  return graph.emit1(Pointwise{code, {}}, {a, b});
}

}  // namespace

// batch_norm ─▶ relu or swish   ⇒   batch_norm{activation}
// Saves a read and a write of y forward; backward what the activation was applied to is recomputed
// from x instead of being read twice.
bool fuse_batch_norm_activation(Graph& graph) {
  const Uses uses(graph);
  return rewrite_each(graph, [&](NodeId id) {
    const ActivationKind kind = activation_of(graph.node(id).op);
    if (kind == ActivationKind::kNone) return false;
    const ValueId y = graph.node(id).inputs[0];
    const NodeId norm = graph.value(y).producer;
    Op op = graph.node(norm).op;
    const NormFlags flags = norm_flags(op);
    if (!flags.is_plain() || !flags.can_end_in(kind) || !uses.only_reader(y, id)) return false;
    *flags.activation = kind;
    graph.rewrite(id, op, graph.node(norm).inputs, statistics_of(graph.node(norm)));
    return true;
  });
}

// batch_norm ─▶ add(z)   ⇒   batch_norm{has_residual}(z)
// Saves a read and a write of the sum; the pair add ─▶ relu of a residual block becomes one pass.
bool fuse_batch_norm_add(Graph& graph) {
  return fuse_additions(graph, [&](Rewriter& rewriter, NodeId add, ValueId y, ValueId z) {
    const NodeId norm = graph.value(y).producer;
    Op op = graph.node(norm).op;
    const NormFlags flags = norm_flags(op);
    if (!flags.is_plain() || *flags.has_residual || y == z || !rewriter.uses().only_reader(y, add))
      return false;
    *flags.has_residual = true;
    std::vector<ValueId> inputs = graph.node(norm).inputs;
    inputs.push_back(z);
    rewriter.rewrite(add, op, std::move(inputs), statistics_of(graph.node(norm)));
    return true;
  });
}

namespace {

// What `reader`, and nobody else, reads as a sum that it could make itself.
struct Terms {
  ValueId a, b;
};
std::optional<Terms> find_terms(const Rewriter& rewriter, ValueId dy, NodeId reader) {
  const Graph& graph = rewriter.graph();
  const Node& sum = graph.producer(dy);
  if (!is_add(sum.op) || !rewriter.uses().only_reader(dy, reader)) return {};
  const Terms terms{sum.inputs[0], sum.inputs[1]};
  const auto is_like_dy = [&](ValueId term) {  // no view: it would have to be copied
    return graph.type(term) == graph.type(dy) && graph.value(term).layout == graph.value(dy).layout;
  };
  const auto can_add = [&](ValueId term) {  // its own code, in the pass that makes it
    return std::holds_alternative<Pointwise>(graph.producer(term).op) &&
           rewriter.uses().only_reader(term, graph.value(dy).producer);
  };
  if (!is_like_dy(terms.a) || !is_like_dy(terms.b) || can_add(terms.a) || can_add(terms.b))
    return {};
  return terms;
}

// Has the gradients of normalisations that `can_add` add up input `dy` themselves.
template <class Gradient, class CanAdd>
bool fuse_gradient_add(Graph& graph, size_t dy, const CanAdd& can_add) {
  Rewriter rewriter(graph);
  return rewrite_each<Gradient>(graph, [&](NodeId id, const Gradient& p) {
    if (p.has_addend || !can_add(p)) return false;
    std::vector<ValueId> inputs = graph.node(id).inputs;
    const auto terms = find_terms(rewriter, inputs[dy], id);
    if (!terms) return false;
    Gradient joined = p;
    joined.has_addend = true;
    inputs[dy] = terms->a;
    inputs.push_back(terms->b);
    rewriter.rewrite(id, joined, std::move(inputs));
    return true;
  });
}

}  // namespace

// add ─▶ batch_norm_grad{has_residual}   ⇒   batch_norm_grad{has_addend}
// The join of a residual block, backwards: saves a pass over the sum, with a mask two. The gradient
// of the residual keeps it.
bool fuse_batch_norm_gradient_add(Graph& graph) {
  return fuse_gradient_add<BatchNormGrad>(graph, 5,
                                          [](const BatchNormGrad& p) { return p.has_residual; });
}

// add ─▶ layer_norm_grad   ⇒   layer_norm_grad{has_addend}
// The same of a block of a transformer, for GPUs.
bool fuse_layer_norm_gradient_add(Graph& graph) {
  return fuse_gradient_add<LayerNormGrad>(graph, 4, [](const LayerNormGrad&) { return true; });
}

namespace {

// The only node but `other` that reads the value.
std::optional<NodeId> only_reader_beside(const Uses& uses, ValueId value, NodeId other) {
  const auto at = static_cast<size_t>(value.index);
  const std::vector<NodeId>& readers = uses.readers[at];
  if (uses.is_output[at] || readers.size() != 2) return {};
  if (readers[0] == other) return readers[1];
  return readers[1] == other ? std::optional(readers[0]) : std::nullopt;
}

// The gradient of a normalisation behind that of the maxima of y, its relu, and nothing else.
std::optional<NodeId> find_gradient_of_maxima(const Graph& graph, const Uses& uses, ValueId y,
                                              NodeId pool) {
  const auto maxima = only_reader_beside(uses, y, pool);
  if (!maxima) return {};
  const Node& gather = graph.node(*maxima);
  const auto* p = std::get_if<MaxPoolGrad>(&gather.op);
  if (p == nullptr || p->has_addend || p->activation != ActivationKind::kNone ||
      p->geometry != std::get<MaxPool>(graph.node(pool).op).geometry)
    return {};
  const auto dy = static_cast<size_t>(gather.outputs[0].index);
  if (uses.is_output[dy] || uses.readers[dy].size() != 1) return {};
  const NodeId gradient = uses.readers[dy][0];
  const Node& node = graph.node(gradient);
  const auto* n = std::get_if<BatchNormGrad>(&node.op);
  const bool is_of_y = n != nullptr && !n->has_residual && n->activation == ActivationKind::kRelu &&
                       node.inputs[0] == graph.producer(y).inputs[0] &&
                       node.inputs[3] == graph.producer(y).outputs[1];
  return is_of_y ? std::optional(gradient) : std::nullopt;
}

}  // namespace

// batch_norm{relu} ─▶ y ─▶ max_pool   ⇒   batch_norm_max_pool
// max_pool_grad(y) ─▶ batch_norm_grad{relu}   ⇒   batch_norm_max_pool_grad
// Saves writing y and its gradient, and every read of them: the gradient's sums are over the
// maxima.
bool fuse_batch_norm_max_pool(Graph& graph) {
  const Uses uses(graph);
  return rewrite_each<MaxPool>(graph, [&](NodeId pool, const MaxPool& p) {
    const PoolGeometry geometry = p.geometry;
    const ValueId y = graph.node(pool).inputs[0];
    const Node norm = graph.producer(y);
    const auto* n = std::get_if<BatchNorm>(&norm.op);
    if (n == nullptr || n->has_residual || n->activation != ActivationKind::kRelu) return false;
    if (geometry.window[0] * geometry.window[1] > BatchNormMaxPool::kMostTaps) return false;
    const auto gradient = find_gradient_of_maxima(graph, uses, y, pool);
    if (!gradient) return false;
    graph.rewrite(pool, BatchNormMaxPool{n->epsilon, geometry}, norm.inputs, statistics_of(norm));
    std::vector<ValueId> inputs = graph.node(*gradient).inputs;
    inputs[5] = graph.producer(inputs[5]).inputs[1];
    const std::vector<ValueId>& outputs = graph.node(pool).outputs;
    inputs.insert(inputs.end(), {outputs[3], outputs[4]});
    graph.rewrite(*gradient, BatchNormMaxPoolGrad{n->epsilon, geometry}, std::move(inputs));
    return true;
  });
}

// conv2d ─▶ batch_norm   ⇒   conv2d{keep_sums} ─▶ y, sums ─▶ batch_norm{has_sums}
// Saves a read of y.
bool fuse_batch_norm_sums(Graph& graph) {
  return rewrite_each<BatchNorm>(graph, [&](NodeId id, const BatchNorm& p) {
    if (p.has_sums) return false;
    BatchNorm norm = p;
    std::vector<ValueId> inputs = graph.node(id).inputs;
    const NodeId producer = graph.value(inputs[0]).producer;
    const auto* c = std::get_if<Conv2d>(&graph.node(producer).op);
    if (c == nullptr || !c->is_plain() ||
        !sums_up(graph.type(graph.node(producer).inputs[1]), c->geometry))
      return false;
    Conv2d conv = *c;
    conv.keep_sums = true;
    graph.rewrite(producer, conv, graph.node(producer).inputs);
    norm.has_sums = true;
    inputs.push_back(graph.node(producer).outputs.back());
    graph.rewrite(id, norm, std::move(inputs));
    return true;
  });
}

namespace {

// The parts of a gradient that one node can give: a data gradient, and what is added to it.
struct GradientParts {
  ValueId product, addend;
};
std::optional<GradientParts> find_parts(const Graph& graph, const Uses& uses, NodeId reader) {
  const Node& node = graph.node(reader);
  const auto& p = std::get<BatchNormGrad>(node.op);
  std::vector<ValueId> terms{node.inputs[5]};
  if (p.has_addend) terms.push_back(node.inputs[static_cast<size_t>(p.addend_input())]);
  for (size_t i = 0; i < terms.size(); ++i) {
    const Node& product = graph.producer(terms[i]);
    const auto* c = std::get_if<Conv2dGradData>(&product.op);
    if (c == nullptr || c->activation != ActivationKind::kNone ||
        !sums_up(graph.type(product.inputs[1]), c->geometry) || !uses.only_reader(terms[i], reader))
      continue;
    // With strides there are no kernels on an H200 that add as well.
    if (p.has_residual && c->geometry.stride != std::array<int64_t, 2>{1, 1}) continue;
    return GradientParts{terms[i], terms.size() == 2 ? terms[1 - i] : ValueId{}};
  }
  return {};
}

// The gradient of a plain normalisation whose y is the residual of `norm`, if that is so: the only
// reader of the residual's gradient.
std::optional<NodeId> find_gradient_of_residual(const Graph& graph, const Uses& uses,
                                                const Node& norm, ValueId dresidual) {
  const Node& residual = graph.producer(norm.inputs[3]);
  const auto& readers = uses.readers[static_cast<size_t>(dresidual.index)];
  if (!plain_norm(residual, std::get<BatchNorm>(norm.op).epsilon) || readers.size() != 1) return {};
  const Node& gradient = graph.node(readers[0]);
  const auto* p = std::get_if<BatchNormGrad>(&gradient.op);
  if (p == nullptr || p->activation != ActivationKind::kNone || p->has_residual ||
      gradient.inputs[0] != residual.inputs[0] || gradient.inputs[5] != dresidual)
    return {};
  return readers[0];
}

}  // namespace

// conv2d_grad_data (─▶ + addend) ─▶ batch_norm_grad{relu}
//   ⇒ conv2d_grad_norm ─▶ g, sums ─▶ batch_norm_grad{has_sums}
// and the same of both normalisations where a residual has one of its own. Saves a read of x and
// one or two passes over the gradient. What relu was applied to is computed again, from the
// residual as well, so that neither y nor a mask of it is kept.
bool fuse_batch_norm_gradient_sums(Graph& graph) {
  const Uses uses(graph);
  std::vector<std::pair<ValueId, ValueId>> replaced;
  const bool changed = rewrite_each<BatchNormGrad>(graph, [&](NodeId id, const BatchNormGrad& p) {
    if (p.activation != ActivationKind::kRelu || p.has_mask) return false;
    const Node gradient = graph.node(id);
    const auto parts = find_parts(graph, uses, id);
    if (!parts) return false;
    const NodeId product = graph.value(parts->product).producer;
    Conv2dGradNorm joined{.geometry = std::get<Conv2dGradData>(graph.node(product).op).geometry,
                          .epsilon = p.epsilon,
                          .has_addend = p.has_addend,
                          .has_residual = p.has_residual};
    std::vector<ValueId> inputs = graph.node(product).inputs;
    if (joined.has_addend) inputs.push_back(parts->addend);
    BatchNormGrad summed{.epsilon = p.epsilon, .has_sums = true};
    std::vector<NodeId> gradients{id};
    std::vector<ValueId> of_second;
    if (p.has_residual) {
      const ValueId dresidual = gradient.outputs[3];
      const Node& norm = graph.producer(gradient.inputs[6]);
      if (!std::holds_alternative<BatchNorm>(norm.op) ||
          uses.is_output[static_cast<size_t>(dresidual.index)])
        return false;
      if (const auto other = find_gradient_of_residual(graph, uses, norm, dresidual)) {
        gradients.push_back(*other);
        of_second = graph.node(*other).outputs;
        joined.norms = 2;
        summed.has_second = true;
        joined.has_residual = false;
      } else {
        inputs.push_back(norm.inputs[3]);
      }
      replaced.emplace_back(dresidual, parts->product);
      graph.node(id).outputs.pop_back();
    }
    std::vector<std::vector<ValueId>> norms;
    for (const NodeId of : gradients) {
      const std::vector<ValueId>& all = graph.node(of).inputs;
      norms.emplace_back(all.begin(), all.begin() + 5);
      inputs.insert(inputs.end(), all.begin(), all.begin() + 5);
    }
    graph.rewrite(product, joined, std::move(inputs));
    std::vector<ValueId> given;
    for (size_t k = 0; k < norms.size(); ++k) {
      given.insert(given.end(), norms[k].begin(), norms[k].end());
      if (k == 0) given.push_back(parts->product);
      given.push_back(graph.node(product).outputs[1 + k]);
    }
    graph.rewrite(id, summed, std::move(given), of_second);
    return true;
  });
  replace_values(graph, replaced);
  return changed;
}

// batch_norm ─▶ batch_norm{has_residual}   ⇒   batch_norm{normalizes_residual}
// Both in front of the sum that ends a residual block: saves a pass over the residual.
bool fuse_batch_norm_residual(Graph& graph) {
  const Uses uses(graph);
  return rewrite_each<BatchNorm>(graph, [&](NodeId id, const BatchNorm& p) {
    if (!p.has_residual || !p.has_sums || p.normalizes_residual) return false;
    std::vector<ValueId> inputs = graph.node(id).inputs;
    const Node residual = graph.producer(inputs[3]);
    const BatchNorm* const other = plain_norm(residual, p.epsilon);
    if (other == nullptr || !other->has_sums || !uses.only_reader(inputs[3], id)) return false;
    BatchNorm joined = p;
    joined.normalizes_residual = true;
    inputs[3] = residual.inputs[0];
    inputs.insert(inputs.end(), residual.inputs.begin() + 1, residual.inputs.end());
    graph.rewrite(id, joined, std::move(inputs), statistics_of(residual));
    return true;
  });
}

// batch_norm{has_residual, relu} ─▶ y ─▶ batch_norm_grad
//   ⇒ batch_norm{keep_mask} ─▶ y, mask ─▶ batch_norm_grad{has_mask}
// Backwards 16 bytes of y are one byte of the mask.
bool fuse_batch_norm_mask(Graph& graph) {
  return rewrite_each<BatchNormGrad>(graph, [&](NodeId id, const BatchNormGrad& p) {
    if (!p.reads_y()) return false;
    BatchNormGrad gradient = p;
    std::vector<ValueId> inputs = graph.node(id).inputs;
    const ValueId y = inputs[6];
    const NodeId producer = graph.value(y).producer;
    const auto* n = std::get_if<BatchNorm>(&graph.node(producer).op);
    if (n == nullptr || graph.type(y).dims.back() % BatchNorm::mask_pack(graph.type(y).dtype) != 0)
      return false;
    BatchNorm norm = *n;
    norm.keep_mask = true;
    graph.rewrite(producer, norm, graph.node(producer).inputs);
    gradient.has_mask = true;
    inputs[6] = graph.node(producer).outputs.back();
    graph.rewrite(id, gradient, std::move(inputs));
    return true;
  });
}

// conv2d(x, w, bias?) ─▶ batch_norm_inference
//   ⇒ conv2d{bias, residual, activation}(x, fold(w), fold(bias))
// A bias in front of a normalisation moves its mean.
// For predictors: the folded weights are constants, computed once; the normalisation disappears.
bool fold_batch_norm(Graph& graph) {
  Rewriter rewriter(graph);
  const bool changed = rewrite_each<BatchNormInference>(graph, [&](NodeId norm, const auto& p) {
    const BatchNormInference flags = p;
    const Node norm_node = graph.node(norm);
    const NodeId conv = graph.value(norm_node.inputs[0]).producer;
    const auto* c = std::get_if<Conv2d>(&graph.node(conv).op);
    if (c == nullptr || c->has_residual || c->activation != ActivationKind::kNone) return false;
    if (!rewriter.uses().only_reader(norm_node.inputs[0], norm)) return false;
    const ValueId x = graph.node(conv).inputs[0];
    ValueId w = graph.node(conv).inputs[1];
    const DType dtype = graph.type(w).dtype;
    if (is_cast(graph.producer(w).op)) w = graph.producer(w).inputs[0];  // fold the f32 master
    Conv2d fused = *c;
    fused.has_bias = true;
    fused.has_residual = flags.has_residual;
    fused.activation = flags.activation;
    graph.set_scope(norm_node.scope);
    ValueId mean = norm_node.inputs[3];
    if (c->has_bias) mean = difference(graph, mean, graph.node(conv).inputs[2]);
    const auto folded =
        graph.emit(FoldBatchNorm{flags.epsilon},
                   {w, norm_node.inputs[1], norm_node.inputs[2], mean, norm_node.inputs[4]});
    const ValueId weights = dtype == DType::kF32 ? folded[0] : cast(graph, folded[0], dtype);
    std::vector<ValueId> inputs{x, weights, folded[1]};
    if (flags.has_residual) inputs.push_back(norm_node.inputs[5]);
    rewriter.rewrite(norm, fused, std::move(inputs));
    return true;
  });
  graph.set_scope("");
  return changed;
}

}  // namespace assay
