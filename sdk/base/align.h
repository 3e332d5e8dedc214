// Where things begin in memory.
#pragma once

#include <cstddef>

namespace assay {

// A cache line, and the widest vector: what tensors, segments and pieces of scratch begin on.
inline constexpr size_t kTensorAlignment = 64;

constexpr size_t align_up(size_t bytes, size_t alignment = kTensorAlignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace assay
