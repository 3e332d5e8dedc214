// What an op of the CUDA backend sees while it is planned, and the queue it is launched on.
#pragma once

#include "sdk/backend/backend.h"
#include "sdk/backend/cuda/libraries.h"

namespace assay::cuda {

class Planner {
 public:
  Planner(const Graph& graph, NodeId node, const Target& target, Libraries& libraries)
      : graph_(graph), node_(graph.node(node)), target_(target), libraries_(libraries) {}

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
  const Target& target() const { return target_; }
  bool tf32() const { return graph_.tf32(); }
  Libraries& libraries() const { return libraries_; }

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
  const Target& target_;
  Libraries& libraries_;
};

// A queue of this backend. One plan may be enqueued on different streams over its life: it asks the
// queue for it.
class StreamQueue : public Queue {
 public:
  explicit StreamQueue(Stream stream) : stream_(stream) {}
  Stream stream() const { return stream_; }

 private:
  Stream stream_;
};
inline Stream stream_of(const Queue& queue) {
  return static_cast<const StreamQueue&>(queue).stream();
}

// dst and src in device memory.
void copy_on_device(Stream stream, void* dst, const void* src, size_t bytes);

// Declared for every op here, defined in sdk/backend/cuda/ops/.
#define ASSAY_DECLARE(Name) NodePlan plan(const Name&, const Planner& c);
ASSAY_OPS(ASSAY_DECLARE)
#undef ASSAY_DECLARE

}  // namespace assay::cuda
