// Copies of a box that lies in two dense tensors, at an offset in each, row by row.
#pragma once

#include <cstring>
#include <vector>

#include "sdk/backend/cpu/ops/own_kernel.h"

namespace assay::cpu {

// Trailing axes that the box fills in both tensors are folded into one run of contiguous bytes.
class BoxCopy {
 public:
  BoxCopy(const Dims& box, const Dims& source, const Dims& source_begin, const Dims& target,
          const Dims& target_begin, size_t element) {
    int64_t from = 1, to = 1;  // elements per step of the axis
    run_ = static_cast<int64_t>(element);
    bool folding = true;
    for (int axis = box.rank() - 1; axis >= 0; --axis) {
      source_offset_ += source_begin[axis] * from * static_cast<int64_t>(element);
      target_offset_ += target_begin[axis] * to * static_cast<int64_t>(element);
      if (folding) {
        run_ *= box[axis];
        folding = box[axis] == source[axis] && box[axis] == target[axis];
      } else {
        axes_.push_back(
            {box[axis], from * static_cast<int64_t>(element), to * static_cast<int64_t>(element)});
        runs_ *= box[axis];
      }
      from *= source[axis], to *= target[axis];
    }
  }

  int64_t runs() const { return runs_; }
  int64_t run_bytes() const { return run_; }

  // Runs [begin, end), counted in row-major order of the box.
  void copy(const void* source, void* target, int64_t begin, int64_t end) const {
    const char* from = static_cast<const char*>(source) + source_offset_;
    char* to = static_cast<char*>(target) + target_offset_;
    for (int64_t i = begin; i < end; ++i) {
      int64_t rest = i, source_at = 0, target_at = 0;
      for (const Axis& axis : axes_) {
        const int64_t index = rest % axis.size;
        rest /= axis.size;
        source_at += index * axis.source_step, target_at += index * axis.target_step;
      }
      std::memcpy(to + target_at, from + source_at, static_cast<size_t>(run_));
    }
  }

 private:
  struct Axis {
    int64_t size, source_step, target_step;  // steps in bytes
  };
  std::vector<Axis> axes_;  // innermost first
  int64_t run_ = 0, runs_ = 1;
  int64_t source_offset_ = 0, target_offset_ = 0;
};

inline Dims zeros_like(const Dims& dims) {
  Dims zeros = dims;
  for (int axis = 0; axis < zeros.rank(); ++axis) zeros[axis] = 0;
  return zeros;
}

inline Chunks runs_of(const BoxCopy& box) {
  return chunks_of(box.runs(), std::max<int64_t>(1, box.run_bytes() / 4));
}

inline void run_copy(const BoxCopy& box, int threads, const void* source, void* target) {
  const Chunks chunks = runs_of(box);
  parallel_for(threads, chunks.count(),
               [&](int64_t i) { box.copy(source, target, chunks.begin(i), chunks.end(i)); });
}

}  // namespace assay::cpu
