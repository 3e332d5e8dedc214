// Sums of rows of tables, and what comes back to a row: in f32, in pieces of a row that stay in the
// first-level cache.
#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/backend/cpu/kernels/lane_math.h"

namespace assay::cpu::ASSAY_ISA {
namespace {

constexpr int64_t kPiece = 256;

template <class T>
void set(const T* x, int64_t n, float* sum) {
#pragma omp simd
  for (int64_t c = 0; c < n; ++c) sum[c] = load(x[c]);
}
template <class T>
void add(const T* x, int64_t n, float* sum) {
#pragma omp simd
  for (int64_t c = 0; c < n; ++c) sum[c] += load(x[c]);
}
template <class T>
void put(const float* sum, int64_t n, T* y) {
#pragma omp simd
  for (int64_t c = 0; c < n; ++c) store(y[c], sum[c]);
}

template <class X, class Y>
void sum(const void* const* rows, int64_t n, void* y, int64_t size) {
  alignas(64) float piece[kPiece];
  for (int64_t first = 0; first < size; first += kPiece) {
    const int64_t width = least(kPiece, size - first);
    bool is_empty = true;
    for (int64_t i = 0; i < n; ++i) {
      if (rows[i] == nullptr) continue;
      const X* x = static_cast<const X*>(rows[i]) + first;
      is_empty ? set(x, width, piece) : add(x, width, piece);
      is_empty = false;
    }
    for (int64_t c = 0; is_empty && c < width; ++c) piece[c] = 0;
    put(piece, width, static_cast<Y*>(y) + first);
  }
}

template <class X, class Y>
void collect(const void* x, int64_t pitch, const int32_t* rows, int64_t n, const void* addend,
             void* y, int64_t size) {
  alignas(64) float piece[kPiece];
  for (int64_t first = 0; first < size; first += kPiece) {
    const int64_t width = least(kPiece, size - first);
    if (addend != nullptr) {
      set(static_cast<const Y*>(addend) + first, width, piece);
    } else {
      for (int64_t c = 0; c < width; ++c) piece[c] = 0;
    }
    for (int64_t i = 0; i < n; ++i)
      add(static_cast<const X*>(x) + rows[i] * pitch + first, width, piece);
    put(piece, width, static_cast<Y*>(y) + first);
  }
}

}  // namespace

extern const GatherKernels kGather;
const GatherKernels kGather = {
    {{sum<float, float>, sum<float, Bf16>}, {sum<Bf16, float>, sum<Bf16, Bf16>}},
    {{collect<float, float>, collect<float, Bf16>}, {collect<Bf16, float>, collect<Bf16, Bf16>}}};

}  // namespace assay::cpu::ASSAY_ISA
