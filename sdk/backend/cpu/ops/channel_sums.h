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

// The plan of a gradient of filters, after which that of the bias, output 1, is summed up from dy,
// input 1, in the same scratch.
inline NodePlan with_bias_gradient(NodePlan plan, const Planner& c) {
  const ChannelSums sums(c.x(1), c.threads());
  plan.scratch_bytes = std::max(plan.scratch_bytes, sums.scratch_bytes());
  plan.bind = [=, bind = std::move(plan.bind)](const Binding& b) -> Launch {
    return [=, run = bind(b), dy = b.x<void>(1), dbias = b.y<float>(1),
            scratch = b.scratch](Queue& q) {
      run(q);
      sums.run(dy, nullptr, dbias, scratch);
    };
  };
  return plan;
}

}  // namespace assay::cpu
