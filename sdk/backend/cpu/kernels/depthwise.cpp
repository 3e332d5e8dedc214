// The weight gradient of depthwise convolutions: every weight is a sum over all pixels of one
// channel, which a register holds for a vector of channels and a row of results. The rows of x that
// a row of results reads stand in a ring, in f32 and with their padding, so that the loop over the
// columns has neither borders nor types.
#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/backend/cpu/kernels/vector.h"

namespace assay::cpu::ASSAY_ISA {
namespace {

// Sums that stay in registers, beside two operands.
constexpr int kSums = kLanes == 16 ? 25 : 10;
constexpr int64_t kAhead = 16;  // pixels, whose channels lie too far apart for hardware to follow

// A row of the ring: what the windows of a row of results cover, from the left padding on.
int64_t ring_columns(const DepthwiseShape& s) { return (s.q - 1) * s.stride[1] + s.window; }

int64_t weight_gradient_work(const DepthwiseShape& s) {
  return s.window * ring_columns(s) * kLanes;
}

// Row h of the image x [h,w,c], or of its padding; n channels of it, at most a vector.
template <class T>
void fill_row(const DepthwiseShape& s, const T* x, int64_t h, int64_t n, float* row) {
  const int64_t columns = ring_columns(s);
  const bool inside = h >= 0 && h < s.h;
  const int64_t begin = inside ? least(s.pad[1], columns) : columns;
  const int64_t end = inside ? least(s.pad[1] + s.w, columns) : columns;
  for (int64_t j = 0; j < begin; ++j) store_vec(row + j * kLanes, Vec{});
  const T* from = x + h * s.w * s.c;
  for (int64_t j = begin; j < end; ++j) {
    const T* pixel = from + (j - s.pad[1]) * s.c;
    __builtin_prefetch(pixel + s.w * s.c);  // of the row below
    store_vec(row + j * kLanes, load_lanes(pixel, n));
  }
  for (int64_t j = end; j < columns; ++j) store_vec(row + j * kLanes, Vec{});
}

// sums[row of the window][column of it][lane] += dy times x over a row of results, for kRows rows
// of a window of kWindow columns.
template <class T, int kWindow, int kRows>
void add_rows(const DepthwiseShape& s, const float* const* rows, const T* dy, int64_t n,
              float* sums) {
  Vec sum[kRows][kWindow] = {};
  const int64_t step = s.stride[1] * kLanes;
  for (int64_t q = 0; q < s.q; ++q) {
    const T* pixel = dy + q * s.c;
    __builtin_prefetch(pixel + kAhead * s.c);
    const Vec g = load_lanes(pixel, n);
    for (int r = 0; r < kRows; ++r) {
      const float* x = rows[r] + q * step;
      for (int k = 0; k < kWindow; ++k) sum[r][k] += g * load_vec(x + k * kLanes);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int k = 0; k < kWindow; ++k) {
      float* to = sums + (r * kWindow + k) * kLanes;
      store_vec(to, load_vec(to) + sum[r][k]);
    }
  }
}

template <class T, int kWindow>
void weight_gradient_of(const DepthwiseShape& s, const T* x, const T* dy, int64_t n, int64_t begin,
                        int64_t end, float* ring, float* sums) {
  constexpr int kRows = kSums / kWindow < kWindow ? kSums / kWindow : kWindow;
  constexpr int kRest = kWindow % kRows;
  const int64_t row_size = ring_columns(s) * kLanes;
  for (int64_t i = 0; i < kWindow * kWindow * kLanes; ++i) sums[i] = 0;
  int64_t next = begin * s.stride[0];  // row of the padded image that the ring takes next
  for (int64_t p = begin; p < end; ++p) {
    const int64_t first = p * s.stride[0];
    for (next = most(next, first); next < first + kWindow; ++next)
      fill_row(s, x, next - s.pad[0], n, ring + next % kWindow * row_size);
    const float* rows[kWindow];
    for (int r = 0; r < kWindow; ++r) rows[r] = ring + (first + r) % kWindow * row_size;
    const T* g = dy + p * s.q * s.c;
    int r = 0;
    for (; r + kRows <= kWindow; r += kRows)
      add_rows<T, kWindow, kRows>(s, rows + r, g, n, sums + r * kWindow * kLanes);
    if constexpr (kRest > 0)
      add_rows<T, kWindow, kRest>(s, rows + r, g, n, sums + r * kWindow * kLanes);
  }
}

template <class T>
void weight_gradient(const DepthwiseShape& s, const void* x, const void* dy, int64_t channel,
                     int64_t begin, int64_t end, float* work, float* sums) {
  const T* from = static_cast<const T*>(x) + channel;
  const T* gradient = static_cast<const T*>(dy) + channel;
  const int64_t n = least(kLanes, s.c - channel);
  s.window == 3 ? weight_gradient_of<T, 3>(s, from, gradient, n, begin, end, work, sums)
                : weight_gradient_of<T, 5>(s, from, gradient, n, begin, end, work, sums);
}

}  // namespace

extern const DepthwiseKernels kDepthwise;
const DepthwiseKernels kDepthwise = {
    kLanes, weight_gradient_work, {weight_gradient<float>, weight_gradient<Bf16>}};

}  // namespace assay::cpu::ASSAY_ISA
