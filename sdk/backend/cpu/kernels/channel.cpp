// Sums over rows per lane, and affine maps with one coefficient per lane.
//
// Precision: a sub-block of kRows rows is summed in f32 with one accumulator per lane, then added
// to f64. The moments are taken around a pivot, the mean of the sub-block's first rows, and moved
// back to zero in f64, so that a large common mean does not cancel: with x = 1000 +- 1 the variance
// keeps all its f32 digits. A pivot far from the sub-block's mean costs digits only there, and only
// if the outliers that caused it dominate the variance anyway.
#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/backend/cpu/kernels/vector_math.h"

namespace assay::cpu::ASSAY_ISA {
namespace {

constexpr int64_t kBlock = 1024;  // lanes summed at a time, in buffers that stay in L1
constexpr int64_t kRows = 128;    // rows per f32 accumulator
constexpr int64_t kPivotRows = 4;

// d += sum of (x - pivot), q += sum of (x - pivot)^2 over `rows` rows of `lanes` elements.
//   x: rows `stride` elements apart; pivot, d, q [lanes]
template <class T>
[[gnu::flatten]] void centered_sums(const T* x, int64_t rows, int64_t stride, int64_t lanes,
                                    const float* pivot, float* d, float* q) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {  // four rows per visit of the accumulators
    for_vectors(lanes, [&](int64_t i, int64_t n) {
      const Vec p = load_lanes(pivot + i, n);
      const auto centered = [&](int64_t row) {
        return stream_lanes(x + (r + row) * stride + i, n) - p;
      };
      const Vec a = centered(0), b = centered(1), c = centered(2), e = centered(3);
      store_lanes(d + i, load_lanes(d + i, n) + ((a + b) + (c + e)), n);
      store_lanes(q + i, load_lanes(q + i, n) + (fma(a, a, b * b) + fma(c, c, e * e)), n);
    });
  }
  for (; r < rows; ++r) {
    for_vectors(lanes, [&](int64_t i, int64_t n) {
      const Vec a = stream_lanes(x + r * stride + i, n) - load_lanes(pivot + i, n);
      store_lanes(d + i, load_lanes(d + i, n) + a, n);
      store_lanes(q + i, fma(a, a, load_lanes(q + i, n)), n);
    });
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
[[gnu::flatten]] void sums_of(const T* x, const T* times, int64_t n, int64_t lanes,
                              double* __restrict sum) {
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
        for_vectors(width, [&](int64_t i, int64_t count) {
          Vec value = stream_lanes(x + row + i, count);
          if constexpr (kProduct) value *= stream_lanes(times + row + i, count);
          store_lanes(d + i, load_lanes(d + i, count) + value, count);
        });
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
[[gnu::flatten]] void affine_rows(const T* x, const float* scale, const float* shift,
                                  const T* residual, T* y, int64_t n, int64_t lanes) {
  for_rows(n, lanes, [&](int64_t begin, int64_t width) {
    for_vectors(width, [&](int64_t i, int64_t count) {
      const int64_t at = begin + i;
      Vec v = fma(stream_lanes(x + at, count), load_lanes(scale + i, count),
                  load_lanes(shift + i, count));
      if constexpr (kResidual) v += stream_lanes(residual + at, count);
      if constexpr (kAct == ActivationKind::kRelu) v = relu(v);
      if constexpr (kAct == ActivationKind::kSwish) v *= sigmoid(v);
      stream_lanes(y + at, v, count);
    });
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

// Of `count` lanes from `lane` on.
struct GradTables {
  Vec scale, shift, mean, gate, gate_shift;
};
template <Mask kMask>
GradTables tables_of(const NormGradArgs& args, int64_t lane, int64_t count) {
  GradTables t{load_lanes(args.scale + lane, count),
               load_lanes(args.shift + lane, count),
               load_lanes(args.mean + lane, count),
               {},
               {}};
  if constexpr (kMask == kGatedSwishFromX) {
    t.gate = load_lanes(args.gate + lane, count);
    t.gate_shift = load_lanes(args.gate_shift + lane, count);
  }
  return t;
}

struct Gradient {
  Vec x, g;  // g is the gradient that passed the activation
};
// Of `count` elements from `at` on. For kFromX the forward's own arithmetic decides, to the bit.
template <class T, Mask kMask>
Gradient gradient_at(const NormGradArgs& args, const GradTables& t, int64_t at, int64_t count) {
  const Vec x = stream_lanes(static_cast<const T*>(args.x) + at, count);
  const Vec dy = stream_lanes(static_cast<const T*>(args.dy) + at, count);
  if constexpr (kMask == kNoMask) return {x, dy};
  if constexpr (kMask == kFromY) {
    const Vec y = stream_lanes(static_cast<const T*>(args.y) + at, count);
    return {x, y <= 0.0f ? Vec{} : dy};
  }
  const Vec v = fma(x, t.scale, t.shift);
  if constexpr (kMask == kFromX) return {x, v <= largest_zero(T{}) ? Vec{} : dy};
  const Vec s = sigmoid(v);
  const Vec arrived = kMask == kGatedSwishFromX ? fma(dy, t.gate, t.gate_shift) : dy;
  return {x, arrived * s * fma(v, 1.0f - s, 1.0f)};
}

// `rows` rows from `offset` on, `stride` apart, of `lanes` lanes from `lane` on; g_sum, gx_sum
// [lanes]. Four rows per visit of the accumulators and coefficients, which halves the loads.
template <class T, Mask kMask, bool kWrite>
[[gnu::flatten]] void grad_sums_block(const NormGradArgs& args, void* masked, int64_t offset,
                                      int64_t rows, int64_t stride, int64_t lane, int64_t lanes,
                                      float* __restrict g_sum, float* __restrict gx_sum) {
  const auto gradient = [&](const GradTables& t, int64_t row, int64_t i, int64_t count) {
    const int64_t at = offset + row * stride + i;
    const Gradient it = gradient_at<T, kMask>(args, t, at, count);
    if constexpr (kWrite) stream_lanes(static_cast<T*>(masked) + at, it.g, count);
    return it;
  };
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    for_vectors(lanes, [&](int64_t i, int64_t count) {
      const GradTables t = tables_of<kMask>(args, lane + i, count);
      const Gradient a = gradient(t, r, i, count), b = gradient(t, r + 1, i, count);
      const Gradient c = gradient(t, r + 2, i, count), d = gradient(t, r + 3, i, count);
      const Vec g = load_lanes(g_sum + i, count) + ((a.g + b.g) + (c.g + d.g));
      const Vec gx = load_lanes(gx_sum + i, count) + (fma(a.g, a.x - t.mean, b.g * (b.x - t.mean)) +
                                                      fma(c.g, c.x - t.mean, d.g * (d.x - t.mean)));
      store_lanes(g_sum + i, g, count);
      store_lanes(gx_sum + i, gx, count);
    });
  }
  for (; r < rows; ++r) {
    for_vectors(lanes, [&](int64_t i, int64_t count) {
      const GradTables t = tables_of<kMask>(args, lane + i, count);
      const Gradient a = gradient(t, r, i, count);
      store_lanes(g_sum + i, load_lanes(g_sum + i, count) + a.g, count);
      store_lanes(gx_sum + i, fma(a.g, a.x - t.mean, load_lanes(gx_sum + i, count)), count);
    });
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
  for_rows(n, lanes, [&](int64_t begin, int64_t width) {
    for_vectors(width, [&](int64_t i, int64_t count) {
      const GradTables t = tables_of<kMask>(args, i, count);
      const Gradient a = gradient_at<T, kMask>(args, t, begin + i, count);
      const Vec rest = fma(load_lanes(b + i, count), a.x, load_lanes(c + i, count));
      stream_lanes(static_cast<T*>(dx) + begin + i, fma(t.scale, a.g, rest), count);
    });
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
