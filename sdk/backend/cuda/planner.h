// What an op of the CUDA backend sees while it is planned, and the queue it is launched on.
#pragma once

#include "sdk/backend/backend.h"
#include "sdk/backend/cuda/libraries.h"

namespace assay::cuda {

class Planner : public NodeView {
 public:
  Planner(const Graph& graph, NodeId node, const Target& target, Libraries& libraries)
      : NodeView(graph, node), target_(target), libraries_(libraries) {}
  const Target& target() const { return target_; }
  Libraries& libraries() const { return libraries_; }

 private:
  const Target& target_;
  Libraries& libraries_;
};

// A queue of this backend. One plan may be enqueued on different streams over its life: it asks the
// queue for it.
class StreamQueue : public Queue {
 public:
  // `arrivals` (kernels.h) belong to the stream.
  StreamQueue(Stream stream, uint32_t* arrivals) : stream_(stream), arrivals_(arrivals) {}
  Stream stream() const { return stream_; }
  uint32_t* arrivals() const { return arrivals_; }

 private:
  Stream stream_;
  uint32_t* arrivals_;
};
inline Stream stream_of(const Queue& queue) {
  return static_cast<const StreamQueue&>(queue).stream();
}
inline uint32_t* arrivals_of(const Queue& queue) {
  return static_cast<const StreamQueue&>(queue).arrivals();
}

// dst and src in device memory.
void copy_on_device(Stream stream, void* dst, const void* src, size_t bytes);

// Declared for every op here, defined in sdk/backend/cuda/ops/.
#define ASSAY_DECLARE(Name) NodePlan plan(const Name&, const Planner& c);
ASSAY_OPS(ASSAY_DECLARE)
#undef ASSAY_DECLARE

}  // namespace assay::cuda
