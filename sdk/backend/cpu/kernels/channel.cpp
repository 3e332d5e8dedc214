// Sums over rows per lane, and affine maps with one coefficient per lane.
//
// Precision: a sub-block of kRows rows is summed in f32 with one accumulator per lane, then added
// to f64. The moments are taken around a pivot, the mean of the sub-block's first rows, and moved
// back to zero in f64, so that a large common mean does not cancel: with x = 1000 +- 1 the variance
// keeps all its f32 digits. A pivot far from the sub-block's mean costs digits only there, and only
// if the outliers that caused it dominate the variance anyway.
#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/backend/cpu/kernels/lane_math.h"

namespace assay::cpu::ASSAY_ISA {
namespace {

constexpr int64_t kBlock = 1024;  // lanes summed at a time, in buffers that stay in L1
constexpr int64_t kRows = 128;    // rows per f32 accumulator
constexpr int64_t kPivotRows = 4;

// d += sum of (x - pivot), q += sum of (x - pivot)^2 over `rows` rows of `lanes` elements.
//   x: rows `stride` elements apart; pivot, d, q [lanes]
template <class T>
void centered_sums(const T* __restrict x, int64_t rows, int64_t stride, int64_t lanes,
                   const float* __restrict pivot, float* __restrict d, float* __restrict q) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {  // four rows per visit of the accumulators
    const T* x0 = x + r * stride;
    const T* x1 = x0 + stride;
    const T* x2 = x1 + stride;
    const T* x3 = x2 + stride;
    for (int64_t i = 0; i < lanes; ++i) {
      const float a = load(x0[i]) - pivot[i];
      const float b = load(x1[i]) - pivot[i];
      const float c = load(x2[i]) - pivot[i];
      const float e = load(x3[i]) - pivot[i];
      d[i] += (a + b) + (c + e);
      q[i] += fma(a, a, b * b) + fma(c, c, e * e);
    }
  }
  for (; r < rows; ++r) {
    const T* x0 = x + r * stride;
    for (int64_t i = 0; i < lanes; ++i) {
      const float a = load(x0[i]) - pivot[i];
      d[i] += a;
      q[i] = fma(a, a, q[i]);
    }
  }
}

// x [n], rows of `lanes` of which the last may be short; sum, sum_squares [lanes].
template <class T>
void moments(const void* data, int64_t n, int64_t lanes, double* __restrict sum,
             double* __restrict sum_squares) {
  const T* x = static_cast<const T*>(data);
  const int64_t rows = n / lanes;
  alignas(64) float pivot[kBlock], d[kBlock], q[kBlock];
  for (int64_t first = 0; first < lanes; first += kBlock) {
    const int64_t width = least(kBlock, lanes - first);
    double* s = sum + first;
    double* ss = sum_squares + first;
    for (int64_t i = 0; i < width; ++i) s[i] = ss[i] = 0;
    for (int64_t r = 0; r < rows; r += kRows) {
      const T* block = x + r * lanes + first;
      const int64_t count = least(kRows, rows - r);
      const int64_t pivot_rows = least(kPivotRows, count);
      for (int64_t i = 0; i < width; ++i) pivot[i] = d[i] = q[i] = 0;
      for (int64_t k = 0; k < pivot_rows; ++k) {
        for (int64_t i = 0; i < width; ++i) pivot[i] += load(block[k * lanes + i]);
      }
      const float inverse = 1.0f / static_cast<float>(pivot_rows);
      for (int64_t i = 0; i < width; ++i) pivot[i] *= inverse;
      centered_sums(block, count, lanes, width, pivot, d, q);
      const double rows_here = static_cast<double>(count);
      for (int64_t i = 0; i < width; ++i) {
        const double a = pivot[i];
        const double di = d[i];
        s[i] += rows_here * a + di;
        ss[i] += static_cast<double>(q[i]) + a * (2.0 * di + rows_here * a);
      }
    }
    const T* tail = x + rows * lanes;
    for (int64_t i = first; i < least(first + width, n - rows * lanes); ++i) {
      const double value = load(tail[i]);
      sum[i] += value;
      sum_squares[i] += value * value;
    }
  }
}

// As moments, of x or of x * times alone.
template <class T, bool kProduct>
void sums_of(const T* x, const T* times, int64_t n, int64_t lanes, double* __restrict sum) {
  const auto term = [=](int64_t i) { return kProduct ? load(x[i]) * load(times[i]) : load(x[i]); };
  const int64_t rows = n / lanes;
  alignas(64) float d[kBlock];
  for (int64_t first = 0; first < lanes; first += kBlock) {
    const int64_t width = least(kBlock, lanes - first);
    double* s = sum + first;
    for (int64_t i = 0; i < width; ++i) s[i] = 0;
    for (int64_t r = 0; r < rows; r += kRows) {
      for (int64_t i = 0; i < width; ++i) d[i] = 0;
      for (int64_t k = r; k < least(r + kRows, rows); ++k) {
        const int64_t row = k * lanes + first;
        for (int64_t i = 0; i < width; ++i) d[i] += term(row + i);
      }
      for (int64_t i = 0; i < width; ++i) s[i] += static_cast<double>(d[i]);
    }
    for (int64_t i = first; i < least(first + width, n - rows * lanes); ++i)
      sum[i] += static_cast<double>(term(rows * lanes + i));
  }
}

template <class T>
void sums(const void* x, const void* times, int64_t n, int64_t lanes, double* sum) {
  const T *a = static_cast<const T*>(x), *b = static_cast<const T*>(times);
  b == nullptr ? sums_of<T, false>(a, b, n, lanes, sum) : sums_of<T, true>(a, b, n, lanes, sum);
}

// Calls row(offset, lanes) for each row of the range; the last may be shorter.
template <class Row>
void for_rows(int64_t n, int64_t lanes, const Row& row) {
  for (int64_t begin = 0; begin < n; begin += lanes) row(begin, least(lanes, n - begin));
}

// x, residual, y [n], rows of `lanes`; scale, shift [lanes].
template <class T, ActivationKind kAct, bool kResidual>
void affine_rows(const T* x, const float* scale, const float* shift, const T* residual, T* y,
                 int64_t n, int64_t lanes) {
  for_rows(n, lanes, [&](int64_t begin, int64_t width) {
    const T* in = x + begin;
    const T* extra = kResidual ? residual + begin : nullptr;
    T* out = y + begin;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      float v = fma(load(in[i]), scale[i], shift[i]);
      if constexpr (kResidual) v += load(extra[i]);
      if constexpr (kAct == ActivationKind::kRelu) v = relu(v);
      if constexpr (kAct == ActivationKind::kSwish) v *= sigmoid(v);
      store(out[i], v);
    }
  });
}

template <class T, ActivationKind kAct>
void affine_to(const T* x, const float* scale, const float* shift, const T* residual, T* y,
               int64_t n, int64_t lanes) {
  residual == nullptr ? affine_rows<T, kAct, false>(x, scale, shift, residual, y, n, lanes)
                      : affine_rows<T, kAct, true>(x, scale, shift, residual, y, n, lanes);
}

template <class T>
void affine(const void* x, const float* scale, const float* shift, const void* residual,
            ActivationKind activation, void* y, int64_t n, int64_t lanes) {
  const T* in = static_cast<const T*>(x);
  const T* extra = static_cast<const T*>(residual);
  T* out = static_cast<T*>(y);
  if (activation == ActivationKind::kRelu)
    return affine_to<T, ActivationKind::kRelu>(in, scale, shift, extra, out, n, lanes);
  if (activation == ActivationKind::kSwish)
    return affine_to<T, ActivationKind::kSwish>(in, scale, shift, extra, out, n, lanes);
  affine_to<T, ActivationKind::kNone>(in, scale, shift, extra, out, n, lanes);
}

// What the gradient is multiplied by: nothing, the mask of a relu, from y or from x, or the
// derivative of swish, also behind a gate.
enum Mask { kNoMask, kFromY, kFromX, kSwishFromX, kGatedSwishFromX };

// The largest forward value that is stored as zero: 0, or half of the smallest bfloat16.
inline float largest_zero(float) { return 0.0f; }
inline float largest_zero(Bf16) { return 0x1p-134f; }

// The gradient that passed the activation. For kFromX the forward's own arithmetic decides, to the
// bit.
template <class T, Mask kMask>
float masked_gradient(float dy, float x, float y, float scale, float shift) {
  if constexpr (kMask == kNoMask) return dy;
  if constexpr (kMask == kFromY) return y <= 0.0f ? 0.0f : dy;
  if constexpr (kMask == kSwishFromX || kMask == kGatedSwishFromX) {
    const float v = fma(x, scale, shift), s = sigmoid(v);
    return dy * s * fma(v, 1.0f - s, 1.0f);
  }
  return fma(x, scale, shift) <= largest_zero(T{}) ? 0.0f : dy;
}

// Pointers to one row of the gradient's inputs; `out` takes the masked gradient if wanted.
template <class T>
struct GradRow {
  const T *x, *dy, *y;
  T* out;
};

// Coefficients of lanes, from the first that is worked on.
struct GradTables {
  const float *scale, *shift, *gate, *gate_shift;
};
GradTables tables_from(const NormGradArgs& args, int64_t lane) {
  const bool gated = args.gate != nullptr;
  return {args.scale + lane, args.shift + lane, gated ? args.gate + lane : nullptr,
          gated ? args.gate_shift + lane : nullptr};
}

template <class T, Mask kMask, bool kWrite>
GradRow<T> grad_row(const NormGradArgs& args, void* masked, int64_t at) {
  return {static_cast<const T*>(args.x) + at, static_cast<const T*>(args.dy) + at,
          kMask == kFromY ? static_cast<const T*>(args.y) + at : nullptr,
          kWrite ? static_cast<T*>(masked) + at : nullptr};
}

template <class T, Mask kMask, bool kWrite>
float row_gradient(const GradRow<T>& row, int64_t i, float x, const GradTables& t) {
  const float y = kMask == kFromY ? load(row.y[i]) : 0.0f;
  float dy = load(row.dy[i]);
  if constexpr (kMask == kGatedSwishFromX) dy = fma(dy, t.gate[i], t.gate_shift[i]);
  const float g = masked_gradient<T, kMask>(dy, x, y, t.scale[i], t.shift[i]);
  if constexpr (kWrite) store_exact(row.out[i], g);  // a mask: nothing to round
  return g;
}

// Four rows per visit of the accumulators and coefficients, which halves the loads; flat, because a
// loop with four calls of swish's derivative is no vector code. Rows begin at
// `offset` and lie `stride` apart; `lane` is the first of their lanes; g_sum, gx_sum [lanes].
template <class T, Mask kMask, bool kWrite>
[[gnu::flatten]] void grad_sums_block(const NormGradArgs& args, void* masked, int64_t offset,
                                      int64_t rows, int64_t stride, int64_t lane, int64_t lanes,
                                      float* __restrict g_sum, float* __restrict gx_sum) {
  const GradTables t = tables_from(args, lane);
  const float* mean = args.mean + lane;
  const auto row_at = [&](int64_t r) {
    return grad_row<T, kMask, kWrite>(args, masked, offset + r * stride);
  };
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const GradRow<T> r0 = row_at(r), r1 = row_at(r + 1), r2 = row_at(r + 2), r3 = row_at(r + 3);
#pragma omp simd
    for (int64_t i = 0; i < lanes; ++i) {
      const float x0 = load(r0.x[i]), x1 = load(r1.x[i]), x2 = load(r2.x[i]), x3 = load(r3.x[i]);
      const float g0 = row_gradient<T, kMask, kWrite>(r0, i, x0, t);
      const float g1 = row_gradient<T, kMask, kWrite>(r1, i, x1, t);
      const float g2 = row_gradient<T, kMask, kWrite>(r2, i, x2, t);
      const float g3 = row_gradient<T, kMask, kWrite>(r3, i, x3, t);
      const float m = mean[i];
      g_sum[i] += (g0 + g1) + (g2 + g3);
      gx_sum[i] += fma(g0, x0 - m, g1 * (x1 - m)) + fma(g2, x2 - m, g3 * (x3 - m));
    }
  }
  for (; r < rows; ++r) {
    const GradRow<T> row = row_at(r);
#pragma omp simd
    for (int64_t i = 0; i < lanes; ++i) {
      const float x = load(row.x[i]);
      const float g = row_gradient<T, kMask, kWrite>(row, i, x, t);
      g_sum[i] += g;
      gx_sum[i] = fma(g, x - mean[i], gx_sum[i]);
    }
  }
}

// args.x, dy, y and masked [n], rows of `lanes`; args' tables, sum_g, sum_gx [lanes].
template <class T, Mask kMask, bool kWrite>
void grad_sums_masked(const NormGradArgs& args, void* masked, int64_t n, int64_t lanes,
                      double* __restrict sum_g, double* __restrict sum_gx) {
  const int64_t rows = n / lanes;
  alignas(64) float g[kBlock], gx[kBlock];
  const auto add_block = [&](int64_t offset, int64_t count, int64_t lane, int64_t width) {
    for (int64_t i = 0; i < width; ++i) g[i] = gx[i] = 0;
    grad_sums_block<T, kMask, kWrite>(args, masked, offset, count, lanes, lane, width, g, gx);
    for (int64_t i = 0; i < width; ++i) {
      sum_g[lane + i] += static_cast<double>(g[i]);
      sum_gx[lane + i] += static_cast<double>(gx[i]);
    }
  };
  for (int64_t first = 0; first < lanes; first += kBlock) {
    const int64_t width = least(kBlock, lanes - first);
    for (int64_t i = first; i < first + width; ++i) sum_g[i] = sum_gx[i] = 0;
    for (int64_t r = 0; r < rows; r += kRows) {
      add_block(r * lanes + first, least(kRows, rows - r), first, width);
    }
    const int64_t tail = least(first + width, n - rows * lanes) - first;
    if (tail > 0) add_block(rows * lanes + first, 1, first, tail);
  }
}

template <class T, Mask kMask>
void grad_sums_written(const NormGradArgs& args, void* masked, int64_t n, int64_t lanes,
                       double* sum_g, double* sum_gx) {
  masked == nullptr ? grad_sums_masked<T, kMask, false>(args, masked, n, lanes, sum_g, sum_gx)
                    : grad_sums_masked<T, kMask, true>(args, masked, n, lanes, sum_g, sum_gx);
}

template <class T>
void grad_sums(const NormGradArgs& args, void* masked, int64_t n, int64_t lanes, double* sum_g,
               double* sum_gx) {
  if (args.activation == ActivationKind::kNone)
    return grad_sums_written<T, kNoMask>(args, masked, n, lanes, sum_g, sum_gx);
  if (args.gate != nullptr)
    return grad_sums_masked<T, kGatedSwishFromX, false>(args, nullptr, n, lanes, sum_g, sum_gx);
  if (args.activation == ActivationKind::kSwish)
    return grad_sums_masked<T, kSwishFromX, false>(args, nullptr, n, lanes, sum_g, sum_gx);
  if (args.y) return grad_sums_written<T, kFromY>(args, masked, n, lanes, sum_g, sum_gx);
  return grad_sums_written<T, kFromX>(args, masked, n, lanes, sum_g, sum_gx);
}

// args.x, dy, y and dx [n], rows of `lanes`; b, c [lanes].
template <class T, Mask kMask>
[[gnu::flatten]] void grad_apply_masked(const NormGradArgs& args, const float* b, const float* c,
                                        void* dx, int64_t n, int64_t lanes) {
  const GradTables t = tables_from(args, 0);
  const auto value = [=](const GradRow<T>& row, int64_t i) {
    const float x = load(row.x[i]);
    const float g = row_gradient<T, kMask, false>(row, i, x, t);
    return fma(t.scale[i], g, fma(b[i], x, c[i]));
  };
  const auto row_at = [&](int64_t at) { return grad_row<T, kMask, false>(args, nullptr, at); };
  T* out = static_cast<T*>(dx);
  int64_t begin = 0;
  for (; begin + 4 * lanes <= n; begin += 4 * lanes) {
    const GradRow<T> r0 = row_at(begin), r1 = row_at(begin + lanes);
    const GradRow<T> r2 = row_at(begin + 2 * lanes), r3 = row_at(begin + 3 * lanes);
    T *o0 = out + begin, *o1 = o0 + lanes, *o2 = o1 + lanes, *o3 = o2 + lanes;
#pragma omp simd
    for (int64_t i = 0; i < lanes; ++i) {
      store(o0[i], value(r0, i));
      store(o1[i], value(r1, i));
      store(o2[i], value(r2, i));
      store(o3[i], value(r3, i));
    }
  }
  for_rows(n - begin, lanes, [&](int64_t at, int64_t width) {
    const GradRow<T> row = row_at(begin + at);
    T* o = out + begin + at;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) store(o[i], value(row, i));
  });
}

template <class T>
void grad_apply(const NormGradArgs& args, const float* b, const float* c, void* dx, int64_t n,
                int64_t lanes) {
  if (args.activation == ActivationKind::kNone)
    return grad_apply_masked<T, kNoMask>(args, b, c, dx, n, lanes);
  if (args.gate != nullptr) return grad_apply_masked<T, kGatedSwishFromX>(args, b, c, dx, n, lanes);
  if (args.activation == ActivationKind::kSwish)
    return grad_apply_masked<T, kSwishFromX>(args, b, c, dx, n, lanes);
  if (args.y) return grad_apply_masked<T, kFromY>(args, b, c, dx, n, lanes);
  return grad_apply_masked<T, kFromX>(args, b, c, dx, n, lanes);
}

}  // namespace

extern const ChannelKernels kChannel;
const ChannelKernels kChannel = {
    {moments<float>, moments<Bf16>},       {sums<float>, sums<Bf16>},
    {affine<float>, affine<Bf16>},         {grad_sums<float>, grad_sums<Bf16>},
    {grad_apply<float>, grad_apply<Bf16>},
};

}  // namespace assay::cpu::ASSAY_ISA
