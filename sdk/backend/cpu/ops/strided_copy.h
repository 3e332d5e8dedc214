// Copies between tensors that lie in memory in different ways.
#pragma once

#include <cstring>
#include <vector>

#include "sdk/backend/cpu/ops/own_kernel.h"

namespace assay::cpu {

// Elements of `dims` from one place to another, as many bytes at once as lie together in both.
// Where the two run along different axes, blocks of both are copied at a time, so that every cache
// line is used while it is there.
class StridedCopy {
 public:
  // Borders are none of its business.
  StridedCopy(const Dims& dims, const Layout& source, const Layout& target, size_t element);

  int64_t runs() const { return runs_; }
  int64_t run_bytes() const { return run_bytes_; }

  // Runs [begin, end) of all; `source` and `target` are the addresses of the first elements.
  // Without a source the target becomes zero.
  void copy(const void* source, void* target, int64_t begin, int64_t end) const;

 private:
  struct Axis {
    int64_t size, source, target;  // steps in bytes
  };
  template <class Unit>
  void copy_block(const char* source, char* target, int64_t width) const;
  void copy_run(const char* source, char* target, int64_t width) const;

  size_t element_;
  std::vector<Axis> outer_;  // innermost first
  // The axis whose elements lie together in both, and the one across it, or in one of them each. A
  // run is a piece of the first axis, or all of the second across a piece of the first.
  Axis pieces_{1, 0, 0}, inner_{1, 0, 0};
  bool together_ = true;
  int64_t piece_ = 1;  // elements
  int64_t runs_ = 1, run_bytes_;
};

inline void run_copy(const StridedCopy& copy, int threads, const void* source, void* target) {
  const Chunks chunks = chunks_of(copy.runs(), std::max<int64_t>(1, copy.run_bytes() / 4));
  parallel_for(threads, chunks.count(),
               [&](int64_t i) { copy.copy(source, target, chunks.begin(i), chunks.end(i)); });
}

}  // namespace assay::cpu
