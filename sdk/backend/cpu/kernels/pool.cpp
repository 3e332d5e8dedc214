// Pooling over NHWC: every loop ends in one over the channels of a pixel, which vectorises.
//
// A NaN in a window wins, as in other frameworks, and takes the gradient. All gradients are in
// gather form: each dx element is written once, so rows are independent and nothing depends on the
// order of threads.
#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/backend/cpu/kernels/vector.h"

namespace assay::cpu::ASSAY_ISA {
namespace {

constexpr int64_t kBlock = 512;  // channels accumulated at a time

// The larger, or the NaN. Selections only: masks joined by logic cost more than they do.
inline Vec larger(Vec best, Vec later) {
  const Vec ordered = later > best ? later : best;
  return later != later ? later : ordered;
}

// The part of a window along one axis that lies inside the image.
struct Span {
  int64_t begin, end;
  int64_t first;  // where the window itself begins, maybe outside
};
Span window_span(const PoolShape& s, int axis, int64_t out, int64_t size) {
  const int64_t first = out * s.stride[axis] - s.pad[axis];
  return {most(first, 0), least(first + s.window[axis], size), first};
}

// The outputs along one axis whose windows contain the input at `in`.
Span covering_span(const PoolShape& s, int axis, int64_t in, int64_t outputs) {
  const int64_t reach = in + s.pad[axis] - s.window[axis] + 1;
  const int64_t begin = reach > 0 ? (reach + s.stride[axis] - 1) / s.stride[axis] : 0;
  return {begin, least((in + s.pad[axis]) / s.stride[axis] + 1, outputs), 0};
}

// x: two rows of [2 q, c], row_elems apart; y [q, c].
template <class T>
[[gnu::flatten]] void max_2x2_row(const T* x, int64_t row_elems, int64_t q, int64_t c, T* y) {
  for (int64_t j = 0; j < q; ++j) {
    const T* x0 = x + 2 * j * c;
    const T* x1 = x0 + row_elems;
    T* out = y + j * c;
    for_vectors(c, [&](int64_t i, int64_t n) {
      const Vec top = larger(stream_lanes(x0 + i, n), stream_lanes(x0 + c + i, n));
      const Vec bottom = larger(stream_lanes(x1 + i, n), stream_lanes(x1 + c + i, n));
      stream_lanes(out + i, larger(top, bottom), n);
    });
  }
}

bool is_2x2(const PoolShape& s) {
  return s.window[0] == 2 && s.window[1] == 2 && s.stride[0] == 2 && s.stride[1] == 2 &&
         s.pad[0] == 0 && s.pad[1] == 0 && 2 * s.p <= s.h && 2 * s.q <= s.w;
}

// Calls visit(h, w, position) for the pixels of a window in row-major order.
template <class Visit>
void for_window(const Span& rows, const Span& columns, int64_t window_width, const Visit& visit) {
  for (int64_t h = rows.begin; h < rows.end; ++h) {
    for (int64_t w = columns.begin; w < columns.end; ++w) {
      visit(h, w, (h - rows.first) * window_width + (w - columns.first));
    }
  }
}

// The maxima of `vectors` registers of channels, x [h, w, c] from its first, y [c]. A comparison
// waits for the one before, so several chains run side by side; what is NaN goes by one of its own.
template <int64_t vectors, class T>
void max_of_channels(const PoolShape& s, const T* x, int64_t channels, const Span& rows,
                     const Span& columns, T* y) {
  Vec best[vectors], nan[vectors];
  for (int64_t v = 0; v < vectors; ++v) best[v] = Vec{} - __builtin_inff(), nan[v] = Vec{};
  for_window(rows, columns, s.window[1], [&](int64_t h, int64_t w, int64_t) {
    const T* pixel = x + (h * s.w + w) * s.c;
    for (int64_t v = 0; v < vectors; ++v) {
      const Vec later = load_lanes(pixel + v * kLanes, channels - v * kLanes);
      best[v] = later > best[v] ? later : best[v];
      nan[v] = later != later ? later : nan[v];
    }
  });
  for (int64_t v = 0; v < vectors; ++v)
    store_lanes(y + v * kLanes, nan[v] != nan[v] ? nan[v] : best[v], channels - v * kLanes);
}

// image [h, w, c]; y [c].
template <class T>
void max_window(const PoolShape& s, const T* image, const Span& rows, const Span& columns, T* y) {
  constexpr int64_t kVectors = 4;
  int64_t c = 0;
  for (; c + kVectors * kLanes <= s.c; c += kVectors * kLanes)
    max_of_channels<kVectors>(s, image + c, kVectors * kLanes, rows, columns, y + c);
  for (; c < s.c; c += kLanes) max_of_channels<1>(s, image + c, s.c - c, rows, columns, y + c);
}

// x [n, h, w, c]; y [n, p, q, c], of whose n * p rows [begin, end) are written.
template <class T>
void max(const PoolShape& s, const void* x, void* y, int64_t begin, int64_t end) {
  const int64_t row_elems = s.w * s.c;
  for (int64_t row = begin; row < end; ++row) {
    const T* image = static_cast<const T*>(x) + row / s.p * s.h * row_elems;
    const int64_t out_row = row % s.p;
    T* out = static_cast<T*>(y) + row * s.q * s.c;
    if (is_2x2(s)) {
      max_2x2_row(image + 2 * out_row * row_elems, row_elems, s.q, s.c, out);
      continue;
    }
    const Span rows = window_span(s, 0, out_row, s.h);
    for (int64_t j = 0; j < s.q; ++j) {
      max_window(s, image, rows, window_span(s, 1, j, s.w), out + j * s.c);
    }
  }
}

template <class T>
void fill_zero(T* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) store(y[i], 0.0f);
}

// What element v of a window with this maximum takes of the gradient, and what it leaves. A NaN
// among the elements makes the maximum NaN, so a NaN element is always one of the maxima.
inline Vec share(Vec v, Vec best, Vec gradient) {
  const Vec if_equal = v == best ? gradient : Vec{};
  return v != v ? gradient : if_equal;
}
inline Vec rest(Vec v, Vec best, Vec gradient) {
  const Vec if_unequal = v == best ? Vec{} : gradient;
  return v != v ? Vec{} : if_unequal;
}

// The maximum is found again from the four inputs: that is cheaper than reading y. x, dx: two rows
// of [2 q, c], row_elems apart; dy [q, c].
template <class T>
[[gnu::flatten]] void max_grad_2x2_row(const T* x, const T* dy, int64_t row_elems, int64_t q,
                                       int64_t c, T* dx) {
  for (int64_t j = 0; j < q; ++j) {
    const T* x0 = x + 2 * j * c;
    const T* x1 = x0 + row_elems;
    T* d0 = dx + 2 * j * c;
    T* d1 = d0 + row_elems;
    const T* g = dy + j * c;
    for_vectors(c, [&](int64_t i, int64_t n) {
      const Vec v0 = stream_lanes(x0 + i, n), v1 = stream_lanes(x0 + c + i, n);
      const Vec v2 = stream_lanes(x1 + i, n), v3 = stream_lanes(x1 + c + i, n);
      const Vec best = larger(larger(v0, v1), larger(v2, v3));
      Vec left = stream_lanes(g + i, n);  // what no earlier element has taken
      const Vec g0 = share(v0, best, left);
      left = rest(v0, best, left);
      const Vec g1 = share(v1, best, left);
      left = rest(v1, best, left);
      const Vec g2 = share(v2, best, left);
      left = rest(v2, best, left);
      stream_lanes(d0 + i, g0, n);
      stream_lanes(d0 + c + i, g1, n);
      stream_lanes(d1 + i, g2, n);
      stream_lanes(d1 + c + i, left, n);
    });
  }
}

// x, dx [n, h, w, c]; dy [n, p, q, c]. Rows and columns that no window covers get zeros, with the
// last rows of their image.
template <class T>
void max_grad_2x2(const PoolShape& s, const void* x, const void* dy, void* dx, int64_t begin,
                  int64_t end) {
  const int64_t row_elems = s.w * s.c;
  const int64_t covered = 2 * s.q * s.c;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t out_row = row % s.p;
    const int64_t at = (row / s.p * s.h + 2 * out_row) * row_elems;
    T* out = static_cast<T*>(dx) + at;
    max_grad_2x2_row(static_cast<const T*>(x) + at, static_cast<const T*>(dy) + row * s.q * s.c,
                     row_elems, s.q, s.c, out);
    for (int64_t k = 0; k < 2; ++k) fill_zero(out + k * row_elems + covered, row_elems - covered);
    if (out_row == s.p - 1) fill_zero(out + 2 * row_elems, (s.h - 2 * s.p) * row_elems);
  }
}

// image [h, w, c]; which [c], the positions of one window. A later equal value does not win.
template <class T>
void max_position_of(const PoolShape& s, const T* image, const Span& rows, const Span& columns,
                     uint16_t* which) {
  const int64_t head = (rows.begin - rows.first) * s.window[1] + columns.begin - columns.first;
  for (int64_t c = 0; c < s.c; c += kLanes) {
    Vec best = load_lanes(image + (rows.begin * s.w + columns.begin) * s.c + c, s.c - c);
    VecBits winner = VecBits{} + static_cast<uint32_t>(head);
    for_window(rows, columns, s.window[1], [&](int64_t h, int64_t w, int64_t position) {
      const Vec v = load_lanes(image + (h * s.w + w) * s.c + c, s.c - c);
      const VecBits here = VecBits{} + static_cast<uint32_t>(position);
      const VecBits ordered = v > best ? here : winner;
      const VecBits first_nan = best == best ? here : ordered;
      winner = v != v ? first_nan : ordered;
      best = larger(best, v);
    });
    store_lanes(which + c, winner, s.c - c);
  }
}

// x [n, h, w, c]; which [n, p, q, c].
template <class T>
void max_position(const PoolShape& s, const void* x, uint16_t* which, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const T* image = static_cast<const T*>(x) + row / s.p * s.h * s.w * s.c;
    const Span rows = window_span(s, 0, row % s.p, s.h);
    for (int64_t j = 0; j < s.q; ++j)
      max_position_of(s, image, rows, window_span(s, 1, j, s.w), which + (row * s.q + j) * s.c);
  }
}

// Calls pixel(row, column, acc, first, width) to add to acc, for every pixel of dx rows
// [begin, end) and block of channels, and stores the result.
template <class T, class Pixel>
void gather(const PoolShape& s, void* dx, int64_t begin, int64_t end, const Pixel& pixel) {
  alignas(64) float acc[kBlock];
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t w = 0; w < s.w; ++w) {
      T* out = static_cast<T*>(dx) + (row * s.w + w) * s.c;
      for (int64_t first = 0; first < s.c; first += kBlock) {
        const int64_t width = least(kBlock, s.c - first);
        for (int64_t i = 0; i < width; ++i) acc[i] = 0;
        pixel(row, w, acc, first, width);
        for (int64_t i = 0; i < width; ++i) store(out[first + i], acc[i]);
      }
    }
  }
}

// The gradient of one pixel: of the windows [ps] x [qs] over it, those in which it won. which, dy
// [p, q, c] of the pixel's image; dx [c].
template <class T>
void max_grad_pixel(const PoolShape& s, const uint16_t* which, const T* dy, const Span& ps,
                    const Span& qs, int64_t h, int64_t w, T* dx) {
  for (int64_t c = 0; c < s.c; c += kLanes) {
    Vec sum{};
    for (int64_t p = ps.begin; p < ps.end; ++p) {
      for (int64_t q = qs.begin; q < qs.end; ++q) {
        const int64_t at = (p * s.q + q) * s.c + c;
        const int64_t here =
            (h + s.pad[0] - p * s.stride[0]) * s.window[1] + w + s.pad[1] - q * s.stride[1];
        const VecMask won =
            load_lanes(which + at, s.c - c) == VecBits{} + static_cast<uint32_t>(here);
        sum += won ? load_lanes(dy + at, s.c - c) : Vec{};
      }
    }
    store_lanes(dx + c, sum, s.c - c);
  }
}

// which, dy [n, p, q, c]; dx [n, h, w, c], of whose n * h rows [begin, end) are written.
template <class T>
void max_grad(const PoolShape& s, const uint16_t* which, const void* dy, void* dx, int64_t begin,
              int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const int64_t h = row % s.h, image = row / s.h * s.p * s.q * s.c;
    const Span ps = covering_span(s, 0, h, s.p);
    for (int64_t w = 0; w < s.w; ++w)
      max_grad_pixel(s, which + image, static_cast<const T*>(dy) + image, ps,
                     covering_span(s, 1, w, s.q), h, w,
                     static_cast<T*>(dx) + (row * s.w + w) * s.c);
  }
}

int64_t count(const Span& span) { return span.end - span.begin; }

// x [n, h, w, c]; y [n, p, q, c], of whose n * p rows [begin, end) are written.
template <class T>
void avg(const PoolShape& s, const void* x, void* y, int64_t begin, int64_t end) {
  alignas(64) float sum[kBlock];
  for (int64_t row = begin; row < end; ++row) {
    const T* image = static_cast<const T*>(x) + row / s.p * s.h * s.w * s.c;
    const Span rows = window_span(s, 0, row % s.p, s.h);
    for (int64_t j = 0; j < s.q; ++j) {
      const Span columns = window_span(s, 1, j, s.w);
      const float inverse = 1.0f / static_cast<float>(count(rows) * count(columns));
      T* out = static_cast<T*>(y) + (row * s.q + j) * s.c;
      for (int64_t first = 0; first < s.c; first += kBlock) {
        const int64_t width = least(kBlock, s.c - first);
        for (int64_t i = 0; i < width; ++i) sum[i] = 0;
        for_window(rows, columns, s.window[1], [&](int64_t h, int64_t w, int64_t) {
          const T* pixel = image + (h * s.w + w) * s.c + first;
          for (int64_t i = 0; i < width; ++i) sum[i] += load(pixel[i]);
        });
        for (int64_t i = 0; i < width; ++i) store(out[first + i], sum[i] * inverse);
      }
    }
  }
}

// dy [n, p, q, c]; dx [n, h, w, c], of whose n * h rows [begin, end) are written.
template <class T>
void avg_grad(const PoolShape& s, const void* dy, void* dx, int64_t begin, int64_t end) {
  gather<T>(s, dx, begin, end,
            [&](int64_t row, int64_t w, float* __restrict acc, int64_t first, int64_t width) {
              const Span ps = covering_span(s, 0, row % s.h, s.p);
              const Span qs = covering_span(s, 1, w, s.q);
              for (int64_t p = ps.begin; p < ps.end; ++p) {
                const int64_t rows = count(window_span(s, 0, p, s.h));
                for (int64_t q = qs.begin; q < qs.end; ++q) {
                  const int64_t elements = rows * count(window_span(s, 1, q, s.w));
                  const float inverse = 1.0f / static_cast<float>(elements);
                  const T* g =
                      static_cast<const T*>(dy) + ((row / s.h * s.p + p) * s.q + q) * s.c + first;
#pragma omp simd
                  for (int64_t i = 0; i < width; ++i) acc[i] = fma(load(g[i]), inverse, acc[i]);
                }
              }
            });
}

}  // namespace

extern const PoolKernels kPool;
const PoolKernels kPool = {
    {max<float>, max<Bf16>},
    {max_grad_2x2<float>, max_grad_2x2<Bf16>},
    {max_position<float>, max_position<Bf16>},
    {max_grad<float>, max_grad<Bf16>},
    {avg<float>, avg<Bf16>},
    {avg_grad<float>, avg_grad<Bf16>},
};

}  // namespace assay::cpu::ASSAY_ISA
