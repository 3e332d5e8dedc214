// What an op sees while its gradient is built: the gradients that arrive, and where its own go.
#pragma once

#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "sdk/graph/graph.h"

namespace assay {

// The sum of what arrives at a value, in the order of arrival: deterministic. Gradients of slices
// that fill the value side by side are concatenated. Leaves the sum alone in `list`.
ValueId sum_contributions(Graph& graph, std::vector<ValueId>& list);

class GradCtx {
 public:
  GradCtx(Graph& graph, NodeId node, std::vector<std::vector<ValueId>>& contributions,
          const std::vector<bool>& wanted)
      : graph_(graph), node_(node), contributions_(contributions), wanted_(wanted) {}

  ValueId x(int i) const { return graph_.node(node_).inputs[i]; }
  ValueId y(int i = 0) const { return graph_.node(node_).outputs[i]; }
  ValueType type(ValueId id) const { return graph_.type(id); }  // a copy: emit() moves values
  int n() const { return static_cast<int>(graph_.node(node_).inputs.size()); }
  // The gradient of output i; call only for outputs that have one (output 0 always does).
  ValueId dy(int i = 0);
  // Whether dy(i) was asked for: a gradient that arrives and is not used would be lost in silence.
  bool used(int i) const { return ((used_ >> i) & 1) != 0; }
  // Whether anybody wants the gradient of input i.
  bool wants(int i) const { return wanted_[x(i).index]; }
  // Adds a contribution to the gradient of input i.
  void dx(int i, ValueId gradient);
  std::vector<ValueId> emit(Op op, std::span<const ValueId> inputs) {
    return graph_.emit(std::move(op), inputs);
  }
  std::vector<ValueId> emit(Op op, std::initializer_list<ValueId> inputs) {
    return graph_.emit(std::move(op), inputs);
  }
  ValueId emit1(Op op, std::initializer_list<ValueId> inputs) {
    return graph_.emit1(std::move(op), inputs);
  }

 private:
  Graph& graph_;
  NodeId node_;
  std::vector<std::vector<ValueId>>& contributions_;  // by value index
  const std::vector<bool>& wanted_;
  uint64_t used_ = 0;  // bits by output
};

// Declared here, defined in sdk/ops/<op>.cpp.
#define ASSAY_DECLARE(Name) void grad(const Name&, GradCtx& c);
ASSAY_DIFFERENTIABLE_OPS(ASSAY_DECLARE)
#undef ASSAY_DECLARE

// Of the other ops, and of uses of these that only appear after differentiation.
template <class T>
[[noreturn]] void no_gradient(const T&) {
  fail(Code::kUnsupported,
       cat(T::kName, " has no gradient: it may not stand between a trained variable and the loss"));
}

}  // namespace assay
