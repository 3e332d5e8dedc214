// Sums over all but the last axis, in f64 and a fixed order: the gradient of a bias. Of x, or of
// x * times.
#pragma once

#include "sdk/backend/cpu/ops/lanes.h"

namespace assay::cpu {

class ChannelSums {
 public:
  ChannelSums(const ValueType& x, int threads)
      : lanes_(lanes_of(x.dims)),
        size_(dtype_size(x.dtype)),
        sums_(kernels().channel->sums[element_of(x)]),
        threads_(threads) {}

  size_t scratch_bytes() const { return parts(nullptr).bytes; }

  void run(const void* x, const void* times, float* y, void* scratch) const {
    const Parts s = parts(scratch);
    parallel_for(threads_, lanes_.tasks.count(), [&](int64_t i) {
      const int64_t begin = lanes_.tasks.begin(i);
      sums_(at(x, begin, size_), times == nullptr ? nullptr : at(times, begin, size_),
            lanes_.tasks.length(i), lanes_.lanes, s.partial + i * lanes_.lanes);
    });
    fold_partial_sums(lanes_, 1, s.partial, s.total);
    for (int64_t k = 0; k < lanes_.channels; ++k) y[k] = static_cast<float>(s.total[k]);
  }

 private:
  struct Parts {
    double *partial, *total;
    size_t bytes;
  };
  Parts parts(void* base) const {
    ScratchLayout scratch(base);
    double* partial = scratch.take<double>(partial_sums_elems(lanes_, 1));
    double* total = scratch.take<double>(static_cast<size_t>(lanes_.channels));
    return {partial, total, scratch.bytes()};
  }

  Lanes lanes_;
  size_t size_;
  void (*sums_)(const void* x, const void* times, int64_t n, int64_t lanes, double* sum);
  int threads_;
};

}  // namespace assay::cpu
