#include "sdk/passes/rematerialize.h"

#include <algorithm>
#include <numeric>

#include "sdk/graph/uses.h"
#include "sdk/passes/views.h"

namespace assay {
namespace {

bool is_cheap(ActivationKind kind) {
  return kind == ActivationKind::kNone || kind == ActivationKind::kRelu;
}

bool is_backward(const Graph& graph, NodeId id) { return graph.node(id).phase != Phase::kForward; }

class BatchNorms {
 public:
  explicit BatchNorms(Graph& graph)
      : graph_(graph), uses_(graph), made_again_(graph.values().size()) {
    places_.resize(graph.nodes().size());
    std::iota(places_.begin(), places_.end(), 0);
  }

  bool rematerialize() {
    const auto n_nodes = static_cast<int32_t>(graph_.nodes().size());
    for (int32_t i = 0; i < n_nodes; ++i) {
      const Node norm = graph_.node({i});
      const auto* p = std::get_if<BatchNorm>(&norm.op);
      if (p != nullptr && can_be_made_again(norm, *p)) make_again(norm, *p);
    }
    const bool changed = places_.size() > static_cast<size_t>(n_nodes);
    if (changed) graph_.sort(places_);
    return changed;
  }

 private:
  const std::vector<NodeId>& readers(ValueId value) const {
    return uses_.readers[static_cast<size_t>(value.index)];
  }
  bool is_read_backward(ValueId value) const {
    return std::ranges::any_of(readers(value), [&](NodeId id) { return is_backward(graph_, id); });
  }
  bool is_made_again(ValueId value) const { return made_again_[static_cast<size_t>(value.index)]; }
  bool is_kept(ValueId value) const { return is_read_backward(value) && !is_made_again(value); }

  // What is an output, or is looked at by a view, stays in memory in any case.
  bool can_be_made_again(const Node& norm, const BatchNorm& p) const {
    const ValueId y = norm.outputs[0];
    return norm.phase == Phase::kForward && is_cheap(p.activation) && is_read_backward(y) &&
           !uses_.is_output[static_cast<size_t>(y.index)] && is_kept(norm.inputs[0]) &&
           (!p.has_residual || is_kept(norm.inputs[3])) &&
           std::ranges::none_of(readers(y),
                                [&](NodeId id) { return is_view(graph_, graph_.node(id)); });
  }

  // In front of the first of backward's nodes that read y.
  void make_again(const Node& norm, const BatchNorm& p) {
    std::vector<ValueId> inputs(norm.inputs.begin(), norm.inputs.begin() + 3);
    inputs.insert(inputs.end(), {norm.outputs[1], norm.outputs[2]});
    if (p.has_residual) inputs.push_back(norm.inputs[3]);
    graph_.set_scope(norm.scope);
    graph_.set_phase(Phase::kBackward);
    const ValueId y = norm.outputs[0];
    const ValueId again =
        graph_.emit(BatchNormInference{p.epsilon, p.activation, p.has_residual}, inputs)[0];
    graph_.set_phase(Phase::kForward);
    graph_.set_scope("");
    made_again_[static_cast<size_t>(y.index)] = true;
    int32_t first = static_cast<int32_t>(graph_.nodes().size());
    for (const NodeId reader : readers(y)) {
      if (!is_backward(graph_, reader)) continue;
      first = std::min(first, reader.index);
      const Op op = graph_.node(reader).op;
      std::vector<ValueId> operands = graph_.node(reader).inputs;
      std::ranges::replace(operands, y, again);
      graph_.rewrite(reader, op, std::move(operands));
    }
    places_.push_back(first);
  }

  Graph& graph_;
  const Uses uses_;
  std::vector<bool> made_again_;  // by value
  std::vector<int32_t> places_;   // by node
};

}  // namespace

// batch_norm ─▶ y, which forward and backward read   ⇒   backward's y is batch_norm_inference(x)
// of the batch's own statistics: the same kernel, and the same bits. x, and a residual that is
// added, are those that backward reads in any case. Costs reading them and writing y, and of every
// convolution in front of a normalisation one tensor is kept instead of two.
bool rematerialize_batch_norm(Graph& graph) { return BatchNorms(graph).rematerialize(); }

}  // namespace assay
