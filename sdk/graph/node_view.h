// One node with the types of what it reads and writes, and the facts about it that hold on every
// backend: what it costs, and which outputs may take an input's memory.
#pragma once

#include <vector>

#include "sdk/graph/graph.h"

namespace assay {

class NodeView {
 public:
  NodeView(const Graph& graph, NodeId node) : graph_(graph), node_(graph.node(node)) {}

  int n_inputs() const { return static_cast<int>(node_.inputs.size()); }
  int n_outputs() const { return static_cast<int>(node_.outputs.size()); }
  const ValueType& x(int i) const { return x_value(i).type; }
  const ValueType& y(int i = 0) const { return y_value(i).type; }
  // Where they lie; the addresses that a plan is bound to are those of their first elements.
  const Layout& x_layout(int i) const { return x_value(i).layout; }
  const Layout& y_layout(int i = 0) const { return y_value(i).layout; }
  // Elements from one row of the tensor to the next (see row_pitch).
  int64_t x_pitch(int i) const { return *row_pitch(x_layout(i), x(i).dims); }
  int64_t y_pitch(int i = 0) const { return *row_pitch(y_layout(i), y(i).dims); }
  const std::string& scope() const { return node_.scope; }
  // Whether matrix products and convolutions of f32 data may round their operands to TF32.
  bool tf32() const { return graph_.tf32(); }

 private:
  const Value& x_value(int i) const { return graph_.value(node_.inputs[static_cast<size_t>(i)]); }
  const Value& y_value(int i) const { return graph_.value(node_.outputs[static_cast<size_t>(i)]); }

  const Graph& graph_;
  const Node& node_;
};

// Output `output` may take the memory of input `input`, if nobody reads that later.
struct InPlace {
  int output, input;
};

struct NodeFacts {
  double flops = 0;  // multiplications and additions of the algorithm, 2 per multiply-add
  double bytes = 0;  // least memory traffic: what is read and written, once
  // Pairs that every backend's kernels allow.
  std::vector<InPlace> in_place = {};
};

// Declared for every op here, defined in sdk/ops/<op>.cpp beside `infer` and `grad`.
#define ASSAY_DECLARE(Name) NodeFacts facts(const Name&, const NodeView& c);
ASSAY_OPS(ASSAY_DECLARE)
#undef ASSAY_DECLARE

NodeFacts facts_of(const Graph& graph, NodeId node);

}  // namespace assay
