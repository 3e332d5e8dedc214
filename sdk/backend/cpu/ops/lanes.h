// How per-channel ops see a tensor [..., C]: rows folded together into lanes.
//
// Element i of the flat tensor belongs to lane i % lanes and to channel i % C. With few channels
// several rows form one row of lanes, so that vector loops are long and full for any C; partial
// sums are folded back to channels at the end.
#pragma once

#include <numeric>

#include "sdk/backend/cpu/ops/own_kernel.h"
#include "sdk/base/align.h"

namespace assay::cpu {

struct Lanes {
  int64_t n, channels, lanes;
  Chunks tasks;   // for sums: few, as each leaves partial sums for every lane
  Chunks pieces;  // for elementwise passes

  int64_t rows() const { return n / channels; }
};

inline Lanes lanes_of(const Dims& x) {
  constexpr int64_t kVector = 16, kWide = 128, kMinLanes = 64, kMaxTasks = 64;
  const int64_t channels = x.back(), n = x.numel();
  int64_t fold = 1;
  if (channels < kWide) {
    const int64_t unit = kVector / std::gcd(channels, kVector);
    fold = round_up(quotient_up(kMinLanes, channels), unit);
  }
  const int64_t lanes = fold * channels;
  if (n <= kSerialElems) return {n, channels, lanes, chunks_of(n), chunks_of(n)};
  const int64_t task = std::max(2 * kChunkElems, quotient_up(n, kMaxTasks));
  return {n, channels, lanes, {n, round_up(task, lanes)}, {n, round_up(kChunkElems, lanes)}};
}

// `kinds` sums per lane from every task: [task][kind][lane].
inline size_t partial_sums_elems(const Lanes& l, int kinds) {
  return static_cast<size_t>(l.tasks.count() * kinds * l.lanes);
}

// Adds the partial sums in their fixed order: total[kind][channel].
inline void fold_partial_sums(const Lanes& l, int kinds, const double* partial, double* total) {
  std::fill_n(total, kinds * l.channels, 0.0);
  for (int64_t task = 0; task < l.tasks.count(); ++task) {
    for (int kind = 0; kind < kinds; ++kind) {
      double* sum = total + kind * l.channels;
      for (int64_t lane = 0; lane < l.lanes; lane += l.channels) {
        for (int64_t c = 0; c < l.channels; ++c) sum[c] += partial[lane + c];
      }
      partial += l.lanes;
    }
  }
}

// Copies the first C entries of a table to all its lanes.
inline void repeat_over_lanes(const Lanes& l, float* table) {
  for (int64_t lane = l.channels; lane < l.lanes; ++lane) table[lane] = table[lane - l.channels];
}

// Hands out aligned parts of a node's scratch memory; with a null base it only adds up the size.
class ScratchLayout {
 public:
  explicit ScratchLayout(void* base) : base_(static_cast<char*>(base)) {}

  template <class T>
  T* take(size_t n) {
    char* part = base_ == nullptr ? nullptr : base_ + used_;
    used_ += align_up(n * sizeof(T));
    return reinterpret_cast<T*>(part);
  }
  size_t bytes() const { return used_; }

 private:
  char* base_;
  size_t used_ = 0;
};

}  // namespace assay::cpu
