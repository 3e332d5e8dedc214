// Shared by the ops that run on the engine's own kernels.
#pragma once

#include <string_view>

#include "sdk/backend/cuda/kernels/kernels.h"
#include "sdk/backend/cuda/planner.h"

namespace assay::cuda {

inline Element element_of(DType dtype) {
  switch (dtype) {
    case DType::kBf16:
      return Element::kBf16;
    case DType::kF16:
      return Element::kF16;
    default:
      return Element::kF32;
  }
}
inline Element element_of(const ValueType& type) { return element_of(type.dtype); }

// A plan called "own:<algorithm>".
inline NodePlan own_plan(std::string_view algorithm) {
  NodePlan plan;
  plan.kernel = cat("own:", algorithm);
  return plan;
}

// Hands out parts of a node's scratch memory in steps of 256 bytes, aligned as its beginning is, to
// 64; with a null base it only adds up the size.
class ScratchLayout {
 public:
  explicit ScratchLayout(void* base) : base_(static_cast<char*>(base)) {}

  template <class T>
  T* take(size_t n) {
    return static_cast<T*>(take_bytes(n * sizeof(T)));
  }
  void* take_bytes(size_t bytes) {
    char* part = base_ == nullptr ? nullptr : base_ + used_;
    used_ += (bytes + 255) / 256 * 256;
    return part;
  }
  size_t bytes() const { return used_; }

 private:
  char* base_;
  size_t used_ = 0;
};

}  // namespace assay::cuda
