// Pooling over NHWC: one thread per pixel and pack of channels.
//
// A NaN in a window wins and takes the gradient. Gradients are in gather form: every element of dx
// is written once, by one thread, so nothing depends on the order of threads.
#include "sdk/backend/cuda/kernels/epilogue.h"

// An array whose index is not known when it is compiled lies in memory instead of registers.
#ifdef __CUDACC__
#define ASSAY_UNROLLED _Pragma("unroll")
#else
#define ASSAY_UNROLLED
#endif

namespace assay::cuda::kernels {
namespace {

__device__ int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
__device__ int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

// The part of a window along one axis that lies inside the image.
struct Span {
  int64_t begin, end;
  int64_t first;  // where the window itself begins, maybe outside
};
__device__ Span window_span(const PoolShape& s, int axis, int64_t out, int64_t size) {
  const int64_t first = out * s.stride[axis] - s.pad[axis];
  return {most(first, 0), least(first + s.window[axis], size), first};
}

// The outputs along one axis whose windows contain the input at `in`.
__device__ Span covering_span(const PoolShape& s, int axis, int64_t in, int64_t outputs) {
  const int64_t reach = in + s.pad[axis] - s.window[axis] + 1;
  const int64_t begin = reach > 0 ? (reach + s.stride[axis] - 1) / s.stride[axis] : 0;
  return {begin, least((in + s.pad[axis]) / s.stride[axis] + 1, outputs), 0};
}

// A pixel of an image [n, rows, columns, c] and a pack of its channels.
struct Place {
  int64_t image, row, column, channel;
  int n;       // channels in the pack
  int64_t at;  // element offset
};

template <class T, class Body>
__device__ void for_places(const PoolShape& s, int64_t rows, int64_t columns, const Body& body) {
  const int64_t packs = (s.c + kPack<T> - 1) / kPack<T>;
  const int64_t total = s.n * rows * columns * packs;
  for (int64_t i = global_thread(); i < total; i += total_threads()) {
    const int64_t pixel = i / packs;
    const int64_t channel = i % packs * kPack<T>;
    body(Place{pixel / (rows * columns), pixel / columns % rows, pixel % columns, channel,
               static_cast<int>(least(kPack<T>, s.c - channel)), pixel * s.c + channel});
  }
}

// Offset of pixel (h, w) of the image, at this place's channels.
__device__ int64_t pixel_at(const PoolShape& s, const Place& p, int64_t h, int64_t w) {
  return ((p.image * s.h + h) * s.w + w) * s.c + p.channel;
}

// x [n, h, w, c], y [n, p, q, c]; likewise below.
template <class T>
__global__ void max_forward(PoolShape s, const T* x, T* y, bool whole) {
  constexpr int N = kPack<T>;
  for_places<T>(s, s.p, s.q, [&](const Place& p) {
    const Span rows = window_span(s, 0, p.row, s.h), columns = window_span(s, 1, p.column, s.w);
    float best[N], v[N];
    for (int i = 0; i < N; ++i) best[i] = -INFINITY;
    for (int64_t h = rows.begin; h < rows.end; ++h) {
      for (int64_t w = columns.begin; w < columns.end; ++w) {
        load_pack<N>(x + pixel_at(s, p, h, w), p.n, whole, v);
        for (int i = 0; i < N; ++i) best[i] = v[i] > best[i] || v[i] != v[i] ? v[i] : best[i];
      }
    }
    store_pack<N>(y + p.at, p.n, whole, best);
  });
}

// Positions of the winners of a pack's channels in their windows, [0, n) of p: one access where
// packs are whole.
template <int N>
struct alignas(N * sizeof(uint16_t)) Positions {
  uint16_t of[N];
};
template <int N>
__device__ Positions<N> load_positions(const uint16_t* p, int n, bool whole) {
  if (whole) return *reinterpret_cast<const Positions<N>*>(p);
  Positions<N> positions{};
  for (int i = 0; i < N; ++i) {
    if (i < n) positions.of[i] = p[i];
  }
  return positions;
}
template <int N>
__device__ void store_positions(uint16_t* p, int n, bool whole, const Positions<N>& positions) {
  if (whole) {
    *reinterpret_cast<Positions<N>*>(p) = positions;
    return;
  }
  for (int i = 0; i < N; ++i) {
    if (i < n) p[i] = positions.of[i];
  }
}

// which = row-major position in its window of the first maximum, or of the first NaN.
template <class T>
__global__ void max_position(PoolShape s, const T* x, uint16_t* which, bool whole) {
  constexpr int N = kPack<T>;
  for_places<T>(s, s.p, s.q, [&](const Place& p) {
    const Span rows = window_span(s, 0, p.row, s.h), columns = window_span(s, 1, p.column, s.w);
    const int head =
        static_cast<int>((rows.begin - rows.first) * s.window[1] + (columns.begin - columns.first));
    float best[N], v[N];
    int position[N];
    for (int i = 0; i < N; ++i) best[i] = -INFINITY, position[i] = head;
    for (int64_t h = rows.begin; h < rows.end; ++h) {
      for (int64_t w = columns.begin; w < columns.end; ++w) {
        const int here = static_cast<int>((h - rows.first) * s.window[1] + (w - columns.first));
        load_pack<N>(x + pixel_at(s, p, h, w), p.n, whole, v);
        for (int i = 0; i < N; ++i) {
          const bool first_nan = v[i] != v[i] && best[i] == best[i];
          if (v[i] > best[i] || first_nan) best[i] = v[i], position[i] = here;
        }
      }
    }
    Positions<N> found;
    for (int i = 0; i < N; ++i) found.of[i] = static_cast<uint16_t>(position[i]);
    store_positions<N>(which + p.at, p.n, whole, found);
  });
}

// Whether accesses may be 16 bytes wide.
struct Whole {
  bool pooled, addend;
};

// Adds to the gradient of pixel (h, w), whose values are x, what is joined to it.
template <class T, int N>
__device__ void join(const JoinedGradient& joined, const Place& place, int64_t h, int64_t w,
                     const float (&x)[N], bool whole, float (&sum)[N]) {
  const int64_t image = place.image - joined.begin[0], row = h - joined.begin[1],
                column = w - joined.begin[2];
  if (joined.addend != nullptr && image >= 0 && image < joined.size[0] && row >= 0 &&
      row < joined.size[1] && column >= 0 && column < joined.size[2]) {
    const int64_t pixel = (image * joined.size[1] + row) * joined.size[2] + column;
    float addend[N];
    load_pack<N>(static_cast<const T*>(joined.addend) + pixel * joined.pitch + place.channel,
                 place.n, whole, addend);
    for (int i = 0; i < N; ++i) sum[i] += addend[i];
  }
  for (int i = 0; i < N; ++i) sum[i] = differentiate(joined.kind, x[i], sum[i]);
}

// One thread per window, which finds its maximum again: that is cheaper than an index of it. Rows
// and columns that no window covers count as windows without a gradient.
template <class T>
__global__ void max_backward_2x2(PoolShape s, const T* x, const T* dy, JoinedGradient joined, T* dx,
                                 Whole whole) {
  constexpr int N = kPack<T>;
  for_places<T>(s, (s.h + 1) / 2, (s.w + 1) / 2, [&](const Place& place) {
    const bool covered = place.row < s.p && place.column < s.q;
    float v[4][N], best[N], gradient[N];
    int winner[N];
    for (int i = 0; i < N; ++i) best[i] = -INFINITY, winner[i] = covered ? 0 : 4, gradient[i] = 0;
    ASSAY_UNROLLED
    for (int k = 0; k < 4; ++k) {
      const int64_t h = 2 * place.row + k / 2, w = 2 * place.column + k % 2;
      if (h >= s.h || w >= s.w) continue;
      load_pack<N>(x + pixel_at(s, place, h, w), place.n, whole.pooled, v[k]);
      for (int i = 0; i < N; ++i) {
        const bool first_nan = v[k][i] != v[k][i] && best[i] == best[i];
        if (covered && (v[k][i] > best[i] || first_nan)) best[i] = v[k][i], winner[i] = k;
      }
    }
    if (covered) {
      const int64_t pixel = (place.image * s.p + place.row) * s.q + place.column;
      load_pack<N>(dy + pixel * s.c + place.channel, place.n, whole.pooled, gradient);
    }
    ASSAY_UNROLLED
    for (int k = 0; k < 4; ++k) {
      const int64_t h = 2 * place.row + k / 2, w = 2 * place.column + k % 2;
      if (h >= s.h || w >= s.w) continue;
      float sum[N];
      for (int i = 0; i < N; ++i) sum[i] = winner[i] == k ? gradient[i] : 0.0f;
      join<T>(joined, place, h, w, v[k], whole.addend, sum);
      store_pack<N>(dx + pixel_at(s, place, h, w), place.n, whole.pooled, sum);
    }
  });
}

// which, dy [n, p, q, c], x, dx [n, h, w, c]; x is read only for the activation.
template <class T>
__global__ void max_backward(PoolShape s, const T* x, const uint16_t* which, const T* dy,
                             JoinedGradient joined, T* dx, Whole whole) {
  constexpr int N = kPack<T>;
  for_places<T>(s, s.h, s.w, [&](const Place& place) {
    const Span ps = covering_span(s, 0, place.row, s.p),
               qs = covering_span(s, 1, place.column, s.q);
    float sum[N], v[N];
    for (int i = 0; i < N; ++i) sum[i] = v[i] = 0;
    for (int64_t p = ps.begin; p < ps.end; ++p) {
      for (int64_t q = qs.begin; q < qs.end; ++q) {
        const int64_t at = ((place.image * s.p + p) * s.q + q) * s.c + place.channel;
        const int here = static_cast<int>((place.row + s.pad[0] - p * s.stride[0]) * s.window[1] +
                                          place.column + s.pad[1] - q * s.stride[1]);
        load_pack<N>(dy + at, place.n, whole.pooled, v);
        const Positions<N> winners = load_positions<N>(which + at, place.n, whole.pooled);
        for (int i = 0; i < N; ++i) {
          if (winners.of[i] == here) sum[i] += v[i];
        }
      }
    }
    if (joined.kind != static_cast<int>(kNone))
      load_pack<N>(x + place.at, place.n, whole.pooled, v);
    join<T>(joined, place, place.row, place.column, v, whole.addend, sum);
    store_pack<N>(dx + place.at, place.n, whole.pooled, sum);
  });
}

__device__ int64_t count(const Span& span) { return span.end - span.begin; }

template <class T>
__global__ void avg_forward(PoolShape s, const T* x, T* y, bool whole) {
  constexpr int N = kPack<T>;
  for_places<T>(s, s.p, s.q, [&](const Place& p) {
    const Span rows = window_span(s, 0, p.row, s.h), columns = window_span(s, 1, p.column, s.w);
    float sum[N], v[N];
    for (int i = 0; i < N; ++i) sum[i] = 0;
    for (int64_t h = rows.begin; h < rows.end; ++h) {
      for (int64_t w = columns.begin; w < columns.end; ++w) {
        load_pack<N>(x + pixel_at(s, p, h, w), p.n, whole, v);
        for (int i = 0; i < N; ++i) sum[i] += v[i];
      }
    }
    const float inverse = 1.0f / static_cast<float>(count(rows) * count(columns));
    for (int i = 0; i < N; ++i) sum[i] *= inverse;
    store_pack<N>(y + p.at, p.n, whole, sum);
  });
}

// A window's share is by the elements of it that lie inside the image.
template <class T>
__global__ void avg_backward(PoolShape s, const T* dy, T* dx, bool whole) {
  constexpr int N = kPack<T>;
  for_places<T>(s, s.h, s.w, [&](const Place& place) {
    const Span ps = covering_span(s, 0, place.row, s.p),
               qs = covering_span(s, 1, place.column, s.q);
    float sum[N], v[N];
    for (int i = 0; i < N; ++i) sum[i] = 0;
    for (int64_t p = ps.begin; p < ps.end; ++p) {
      const int64_t rows = count(window_span(s, 0, p, s.h));
      for (int64_t q = qs.begin; q < qs.end; ++q) {
        const float inverse = 1.0f / static_cast<float>(rows * count(window_span(s, 1, q, s.w)));
        load_pack<N>(dy + ((place.image * s.p + p) * s.q + q) * s.c + place.channel, place.n, whole,
                     v);
        for (int i = 0; i < N; ++i) sum[i] = fmaf(v[i], inverse, sum[i]);
      }
    }
    store_pack<N>(dx + place.at, place.n, whole, sum);
  });
}

template <class T>
bool whole_packs(const PoolShape& s, const void* a, const void* b) {
  return s.c % kPack<T> == 0 && on_16_bytes(a, b);
}

template <class T>
unsigned blocks_of(const PoolShape& s, int64_t pixels) {
  return blocks_for(s.n * pixels * ceil_div(s.c, kPack<T>));
}

}  // namespace

void max_pool(Stream stream, Element element, const PoolShape& s, const void* x, void* y) {
  dispatch(element, [&]<class T>(T) {
    launch(stream, blocks_of<T>(s, s.p * s.q), kThreads, max_forward<T>, s,
           static_cast<const T*>(x), static_cast<T*>(y), whole_packs<T>(s, x, y));
  });
}

bool tiles_2x2(const PoolShape& s) {
  return s.window[0] == 2 && s.window[1] == 2 && s.stride[0] == 2 && s.stride[1] == 2 &&
         s.pad[0] == 0 && s.pad[1] == 0;
}

void max_pool_grad(Stream stream, Element element, const PoolShape& s, const void* x,
                   const void* dy, const JoinedGradient& joined, uint16_t* which, void* dx) {
  dispatch(element, [&]<class T>(T) {
    const Whole whole{whole_packs<T>(s, x, dy) && on_16_bytes(dx, which),
                      joined.pitch % kPack<T> == 0 && on_16_bytes(joined.addend)};
    if (tiles_2x2(s)) {
      launch(stream, blocks_of<T>(s, ceil_div(s.h, 2) * ceil_div(s.w, 2)), kThreads,
             max_backward_2x2<T>, s, static_cast<const T*>(x), static_cast<const T*>(dy), joined,
             static_cast<T*>(dx), whole);
      return;
    }
    launch(stream, blocks_of<T>(s, s.p * s.q), kThreads, max_position<T>, s,
           static_cast<const T*>(x), which, whole_packs<T>(s, x, which));
    launch(stream, blocks_of<T>(s, s.h * s.w), kThreads, max_backward<T>, s,
           static_cast<const T*>(x), static_cast<const uint16_t*>(which), static_cast<const T*>(dy),
           joined, static_cast<T*>(dx), whole);
  });
}

void avg_pool(Stream stream, Element element, const PoolShape& s, const void* x, void* y) {
  dispatch(element, [&]<class T>(T) {
    launch(stream, blocks_of<T>(s, s.p * s.q), kThreads, avg_forward<T>, s,
           static_cast<const T*>(x), static_cast<T*>(y), whole_packs<T>(s, x, y));
  });
}

void avg_pool_grad(Stream stream, Element element, const PoolShape& s, const void* dy, void* dx) {
  dispatch(element, [&]<class T>(T) {
    launch(stream, blocks_of<T>(s, s.h * s.w), kThreads, avg_backward<T>, s,
           static_cast<const T*>(dy), static_cast<T*>(dx), whole_packs<T>(s, dy, dx));
  });
}

}  // namespace assay::cuda::kernels
