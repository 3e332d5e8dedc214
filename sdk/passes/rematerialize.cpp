#include "sdk/passes/rematerialize.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "sdk/graph/uses.h"
#include "sdk/passes/views.h"

namespace assay {
namespace {

bool is_cheap(ActivationKind kind) {
  return kind == ActivationKind::kNone || kind == ActivationKind::kRelu;
}

bool is_backward(const Graph& graph, NodeId id) { return graph.node(id).phase != Phase::kForward; }

class Rematerialization {
 public:
  explicit Rematerialization(Graph& graph)
      : graph_(graph), uses_(graph), made_again_(graph.values().size()) {
    places_.resize(graph.nodes().size());
    std::iota(places_.begin(), places_.end(), 0);
  }

  bool run() {
    const auto n_nodes = static_cast<int32_t>(graph_.nodes().size());
    for (int32_t i = 0; i < n_nodes; ++i) {
      const Node node = graph_.node({i});
      if (!pays(node)) continue;
      if (const auto copy = copy_of(node)) make_again(node, *copy);
    }
    const bool changed = places_.size() > static_cast<size_t>(n_nodes);
    if (changed) graph_.sort(places_);
    return changed;
  }

 private:
  // What gives a node's first output again.
  struct Copy {
    Op op;
    std::vector<ValueId> inputs;
  };

  const std::vector<NodeId>& readers(ValueId value) const {
    return uses_.readers[static_cast<size_t>(value.index)];
  }
  bool is_read_backward(ValueId value) const {
    return std::ranges::any_of(readers(value), [&](NodeId id) { return is_backward(graph_, id); });
  }
  bool is_made_again(ValueId value) const { return made_again_[static_cast<size_t>(value.index)]; }
  bool is_kept(ValueId value) const { return is_read_backward(value) && !is_made_again(value); }

  // What is an output, or is looked at by a view, stays in memory in any case.
  bool pays(const Node& node) const {
    if (node.phase != Phase::kForward || node.outputs.empty()) return false;
    const ValueId y = node.outputs[0];
    return is_read_backward(y) && !uses_.is_output[static_cast<size_t>(y.index)] &&
           std::ranges::none_of(readers(y),
                                [&](NodeId id) { return is_view(graph_, graph_.node(id)); });
  }

  // Of tensors that are kept; none if there is no cheap one.
  std::optional<Copy> copy_of(const Node& node) const {
    const bool is_pool = std::holds_alternative<MaxPool>(node.op);
    const auto* const norm = std::get_if<BatchNorm>(&node.op);
    if ((!is_pool && norm == nullptr) || !is_kept(node.inputs[0])) return {};
    if (is_pool) return Copy{node.op, node.inputs};
    if (!is_cheap(norm->activation) || (norm->has_residual && !is_kept(node.inputs[3]))) return {};
    std::vector<ValueId> inputs(node.inputs.begin(), node.inputs.begin() + 3);
    inputs.insert(inputs.end(), {node.outputs[1], node.outputs[2]});
    if (norm->has_residual) inputs.push_back(node.inputs[3]);
    return Copy{BatchNormInference{norm->epsilon, norm->activation, norm->has_residual}, inputs};
  }

  // In front of the first of backward's nodes that read y.
  void make_again(const Node& node, const Copy& copy) {
    graph_.set_scope(node.scope);
    graph_.set_phase(Phase::kBackward);
    const ValueId y = node.outputs[0];
    const ValueId again = graph_.emit(copy.op, copy.inputs)[0];
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
// max_pool ─▶ y likewise, from x, in which its own gradient looks up the maxima.
bool rematerialize(Graph& graph) { return Rematerialization(graph).run(); }

}  // namespace assay
