// Shared by the ops that run on the engine's own kernels: how work is cut, and how plans are named.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/backend/cpu/planner.h"

namespace assay::cpu {

// Whether own kernels are those of processors with AVX2 and no more, where oneDNN's are slow for
// many sizes and know no bf16.
inline bool has_avx2_alone() { return std::string_view(kernels().isa) == "avx2"; }

inline Element element_of(const ValueType& type) {
  return type.dtype == DType::kBf16 ? kElementBf16 : kElementF32;
}

// y = a + b, n elements of one type; y may be either.
inline void add(const void* a, const void* b, void* y, Element element, int64_t n) {
  const PointwiseRange operands[] = {{const_cast<void*>(a), element},
                                     {const_cast<void*>(b), element}};
  kernels().pointwise->step(PointwiseFn::kAdd, operands, {y, element}, n);
}

// A plan called "own:<algorithm>:<isa>".
inline NodePlan own_plan(std::string_view algorithm) {
  NodePlan plan;
  plan.kernel = cat("own:", algorithm, ":", kernels().isa);
  return plan;
}

// n / unit, and n, rounded up to whole units.
inline int64_t quotient_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit; }
inline int64_t round_up(int64_t n, int64_t unit) { return quotient_up(n, unit) * unit; }

// [0, total) in pieces of `size`, the last one shorter. Depends on sizes only, never on threads.
struct Chunks {
  int64_t total, size;

  int64_t count() const { return quotient_up(total, size); }
  int64_t begin(int64_t i) const { return i * size; }
  int64_t end(int64_t i) const { return std::min(total, (i + 1) * size); }
  int64_t length(int64_t i) const { return end(i) - begin(i); }
};

// Below this many elements a second thread costs more than it saves (a fork and join take about
// 2 us, in which one core moves 30 KB).
constexpr int64_t kSerialElems = 16384;
constexpr int64_t kChunkElems = 8192;  // 32 KB of f32: even work, offsets on whole cache lines

// Pieces of `total` units of `unit_elems` elements each.
inline Chunks chunks_of(int64_t total, int64_t unit_elems = 1) {
  const int64_t whole = std::max<int64_t>(total, 1);
  if (total * unit_elems <= kSerialElems) return {total, whole};
  return {total, std::max<int64_t>(1, kChunkElems / unit_elems)};
}

// The sum of term(i) for i in [0, n): all are computed first, into `terms`, then added in their
// order, so that it does not depend on the threads.
template <class T, class Term>
T sum_in_order(int threads, int64_t n, T* terms, const Term& term) {
  parallel_for(threads, n, [&](int64_t i) { terms[i] = term(i); });
  T sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += terms[i];
  return sum;
}

// An elementwise pass over several tensors of the same dims: in flat pieces if all are dense, else
// row by row. body(at, n) works on n elements of each, tensor k from element at[k] on.
template <size_t N>
class Pass {
 public:
  Pass(const Dims& dims, const std::array<const Layout*, N>& layouts)
      : row_(dims.rank() == 0 ? 1 : dims.back()) {
    for (size_t k = 0; k < N; ++k) {
      pitch_[k] = *row_pitch(*layouts[k], dims);
      flat_ = flat_ && is_dense(*layouts[k], dims);
    }
    chunks_ = flat_ ? chunks_of(dims.numel()) : chunks_of(dims.numel() / row_, row_);
  }

  template <class Body>
  void run(int threads, const Body& body) const {
    parallel_for(threads, chunks_.count(), [&](int64_t i) {
      std::array<int64_t, N> at;
      if (flat_) {
        at.fill(chunks_.begin(i));
        body(at, chunks_.length(i));
        return;
      }
      for (int64_t row = chunks_.begin(i); row < chunks_.end(i); ++row) {
        for (size_t k = 0; k < N; ++k) at[k] = row * pitch_[k];
        body(at, row_);
      }
    });
  }

 private:
  bool flat_ = true;
  int64_t row_;
  std::array<int64_t, N> pitch_{};
  Chunks chunks_{};
};

// Addresses of elements at an offset.
inline const void* at(const void* base, int64_t elem, size_t size) {
  return static_cast<const char*>(base) + static_cast<size_t>(elem) * size;
}
inline void* at(void* base, int64_t elem, size_t size) {
  return static_cast<char*>(base) + static_cast<size_t>(elem) * size;
}

}  // namespace assay::cpu
