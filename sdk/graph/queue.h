// What a device does, and the order in which it does it.
#pragma once

#include <functional>

namespace assay {

// Where a launch goes: what is put on one queue happens in that order. Made by the backend, whose
// launches alone know what is behind it: a stream of a GPU, or nothing on the CPU, where a launch
// is over when it returns.
class Queue {
 public:
  virtual ~Queue() = default;
};

// Runs (CPU) or enqueues (GPU) one node; empty if there is nothing to do. Those of the CPU never
// allocate or lock, those of a GPU as far as its libraries do not; may throw Error.
using Launch = std::function<void(Queue&)>;

}  // namespace assay
