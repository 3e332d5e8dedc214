// What an op of the CPU backend sees while it is planned, and how it runs in parallel.
#pragma once

#include <omp.h>

#include "sdk/backend/backend.h"

namespace assay::cpu {

class Planner {
 public:
  Planner(const Graph& graph, NodeId node, int threads)
      : graph_(graph), node_(graph.node(node)), threads_(threads) {}

  int n_inputs() const { return static_cast<int>(node_.inputs.size()); }
  int n_outputs() const { return static_cast<int>(node_.outputs.size()); }
  const ValueType& x(int i) const { return graph_.type(node_.inputs[i]); }
  const ValueType& y(int i = 0) const { return graph_.type(node_.outputs[i]); }
  // Where they lie; the addresses that a plan is bound to are those of their first elements.
  const Layout& x_layout(int i) const { return graph_.value(node_.inputs[i]).layout; }
  const Layout& y_layout(int i = 0) const { return graph_.value(node_.outputs[i]).layout; }
  // Elements from one row of the tensor to the next (see row_pitch).
  int64_t x_pitch(int i) const { return *row_pitch(x_layout(i), x(i).dims); }
  int64_t y_pitch(int i = 0) const { return *row_pitch(y_layout(i), y(i).dims); }
  const std::string& scope() const { return node_.scope; }
  int threads() const { return threads_; }

  // Sum of the sizes of all inputs and outputs: the least traffic.
  double traffic_bytes() const {
    double sum = 0;
    for (const ValueId input : node_.inputs) sum += static_cast<double>(graph_.type(input).bytes());
    for (const ValueId output : node_.outputs)
      sum += static_cast<double>(graph_.type(output).bytes());
    return sum;
  }

 private:
  const Graph& graph_;
  const Node& node_;
  int threads_;
};

// Calls body(i) for i in [0, n), split evenly over `threads` in a fixed way. The work of one i must
// not depend on the number of threads, so results have the same bits on any number of them. body
// must not throw.
template <class Body>
void parallel_for(int threads, int64_t n, const Body& body) {
  if (threads == 1 || n == 1) {
    for (int64_t i = 0; i < n; ++i) body(i);
    return;
  }
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t i = 0; i < n; ++i) body(i);
}

// Declared for every op here, defined in sdk/backend/cpu/ops/.
#define ASSAY_DECLARE(Name) NodePlan plan(const Name&, const Planner& c);
ASSAY_OPS(ASSAY_DECLARE)
#undef ASSAY_DECLARE

}  // namespace assay::cpu
