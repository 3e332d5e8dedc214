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

__device__ int least(int a, int b) { return a < b ? a : b; }
__device__ int most(int a, int b) { return a > b ? a : b; }

// A PoolShape whose numbers fit 32 bits, as those of one image do: indices within an image are
// divided, and a division of 64 bits is a call.
struct Shape {
  int n, h, w, c, p, q;
  int window[2], stride[2], pad[2];
};
Shape shape_of(const PoolShape& s) {
  const auto small = [](int64_t x) { return static_cast<int>(x); };
  return {small(s.n),
          small(s.h),
          small(s.w),
          small(s.c),
          small(s.p),
          small(s.q),
          {small(s.window[0]), small(s.window[1])},
          {small(s.stride[0]), small(s.stride[1])},
          {small(s.pad[0]), small(s.pad[1])}};
}

// The part of a window along one axis that lies inside the image.
struct Span {
  int begin, end;
  int first;  // where the window itself begins, maybe outside
};
__device__ Span window_span(const Shape& s, int axis, int out, int size) {
  const int first = out * s.stride[axis] - s.pad[axis];
  return {most(first, 0), least(first + s.window[axis], size), first};
}

// The outputs along one axis whose windows contain the input at `in`.
__device__ Span covering_span(const Shape& s, int axis, int in, int outputs) {
  const int reach = in + s.pad[axis] - s.window[axis] + 1;
  const int begin = reach > 0 ? (reach + s.stride[axis] - 1) / s.stride[axis] : 0;
  return {begin, least((in + s.pad[axis]) / s.stride[axis] + 1, outputs), 0};
}

// A pixel of an image [n, rows, columns, c] and a pack of its channels.
struct Place {
  int image, row, column, channel;
  int n;       // channels in the pack
  int64_t at;  // element offset
};

// A row of blocks per image, and more images than there are such rows one after the other.
template <class T, class Body>
__device__ void for_places(const Shape& s, int rows, int columns, const Body& body) {
  const unsigned packs = static_cast<unsigned>(s.c + kPack<T> - 1) / kPack<T>;
  const unsigned of_row = static_cast<unsigned>(columns) * packs;
  const unsigned total = static_cast<unsigned>(rows) * of_row;
  for (int image = static_cast<int>(blockIdx.y); image < s.n;
       image += static_cast<int>(gridDim.y)) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < total;
         i += gridDim.x * blockDim.x) {
      const unsigned row = i / of_row, in_row = i - row * of_row;
      const unsigned column = in_row / packs;
      const int channel = static_cast<int>(in_row - column * packs) * kPack<T>;
      const int64_t pixel = (static_cast<int64_t>(image) * rows + row) * columns + column;
      body(Place{image, static_cast<int>(row), static_cast<int>(column), channel,
                 least(kPack<T>, s.c - channel), pixel * s.c + channel});
    }
  }
}

// Offset of pixel (h, w) of the image, at this place's channels.
__device__ int64_t pixel_at(const Shape& s, const Place& p, int h, int w) {
  return ((static_cast<int64_t>(p.image) * s.h + h) * s.w + w) * s.c + p.channel;
}

// As pixel_at, of the output (p, q).
__device__ int64_t pooled_at(const Shape& s, const Place& place, int p, int q) {
  return ((static_cast<int64_t>(place.image) * s.p + p) * s.q + q) * s.c + place.channel;
}

// Calls use(pack, h, w) for the pixels of a window in x, row by row. Several of a row are read
// before the first of them is used.
template <bool kWhole, class T, class Use>
__device__ void for_window(const Shape& s, const Place& p, const Span& rows, const Span& columns,
                           const T* x, const Use& use) {
  constexpr int kBatch = 4;
  for (int h = rows.begin; h < rows.end; ++h) {
    const T* next = x + pixel_at(s, p, h, columns.begin);
    ASSAY_ROLLED
    for (int w = columns.begin; w < columns.end; w += kBatch, next += kBatch * s.c) {
      Pack<T> batch[kBatch] = {};
      ASSAY_UNROLLED
      for (int k = 0; k < kBatch; ++k) {
        if (w + k < columns.end) batch[k] = read_pack<kWhole>(next + k * s.c, p.n);
      }
      ASSAY_UNROLLED
      for (int k = 0; k < kBatch; ++k) {
        if (w + k < columns.end) use(batch[k], h, w + k);
      }
    }
  }
}

// x [n, h, w, c], y [n, p, q, c]; likewise below.
template <class T, bool kWhole>
__global__ void max_forward(Shape s, const T* x, T* y) {
  constexpr int N = kPack<T>;
  for_places<T>(s, s.p, s.q, [&](const Place& p) {
    const Span rows = window_span(s, 0, p.row, s.h), columns = window_span(s, 1, p.column, s.w);
    float best[N];
    for (int i = 0; i < N; ++i) best[i] = -INFINITY;
    for_window<kWhole>(s, p, rows, columns, x, [&](const Pack<T>& pack, int, int) {
      float v[N];
      unpack(pack, v);
      for (int i = 0; i < N; ++i) best[i] = v[i] > best[i] || v[i] != v[i] ? v[i] : best[i];
    });
    store_pack<N>(y + p.at, p.n, kWhole, best);
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
template <class T, bool kWhole>
__global__ void max_position(Shape s, const T* x, uint16_t* which) {
  constexpr int N = kPack<T>;
  for_places<T>(s, s.p, s.q, [&](const Place& p) {
    const Span rows = window_span(s, 0, p.row, s.h), columns = window_span(s, 1, p.column, s.w);
    const int head = (rows.begin - rows.first) * s.window[1] + (columns.begin - columns.first);
    float best[N];
    int position[N];
    for (int i = 0; i < N; ++i) best[i] = -INFINITY, position[i] = head;
    for_window<kWhole>(s, p, rows, columns, x, [&](const Pack<T>& pack, int h, int w) {
      const int here = (h - rows.first) * s.window[1] + (w - columns.first);
      float v[N];
      unpack(pack, v);
      for (int i = 0; i < N; ++i) {
        const bool first_nan = v[i] != v[i] && best[i] == best[i];
        if (v[i] > best[i] || first_nan) best[i] = v[i], position[i] = here;
      }
    });
    Positions<N> found;
    for (int i = 0; i < N; ++i) found.of[i] = static_cast<uint16_t>(position[i]);
    store_positions<N>(which + p.at, p.n, kWhole, found);
  });
}

// Whether accesses may be 16 bytes wide.
struct Whole {
  bool pooled, addend;
};

// Adds to the gradient of pixel (h, w), whose values are x, what is joined to it.
template <class T, int N>
__device__ void join(const JoinedGradient& joined, const Place& place, int h, int w,
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
__global__ void max_backward_2x2(Shape s, const T* x, const T* dy, JoinedGradient joined, T* dx,
                                 Whole whole) {
  constexpr int N = kPack<T>;
  for_places<T>(s, (s.h + 1) / 2, (s.w + 1) / 2, [&](const Place& place) {
    const bool covered = place.row < s.p && place.column < s.q;
    float v[4][N], best[N], gradient[N];
    int winner[N];
    for (int i = 0; i < N; ++i) best[i] = -INFINITY, winner[i] = covered ? 0 : 4, gradient[i] = 0;
    ASSAY_UNROLLED
    for (int k = 0; k < 4; ++k) {
      const int h = 2 * place.row + k / 2, w = 2 * place.column + k % 2;
      if (h >= s.h || w >= s.w) continue;
      load_pack<N>(x + pixel_at(s, place, h, w), place.n, whole.pooled, v[k]);
      for (int i = 0; i < N; ++i) {
        const bool first_nan = v[k][i] != v[k][i] && best[i] == best[i];
        if (covered && (v[k][i] > best[i] || first_nan)) best[i] = v[k][i], winner[i] = k;
      }
    }
    if (covered)
      load_pack<N>(dy + pooled_at(s, place, place.row, place.column), place.n, whole.pooled,
                   gradient);
    ASSAY_UNROLLED
    for (int k = 0; k < 4; ++k) {
      const int h = 2 * place.row + k / 2, w = 2 * place.column + k % 2;
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
__global__ void max_backward(Shape s, const T* x, const uint16_t* which, const T* dy,
                             JoinedGradient joined, T* dx, Whole whole) {
  constexpr int N = kPack<T>;
  for_places<T>(s, s.h, s.w, [&](const Place& place) {
    const Span ps = covering_span(s, 0, place.row, s.p),
               qs = covering_span(s, 1, place.column, s.q);
    float sum[N], v[N];
    for (int i = 0; i < N; ++i) sum[i] = v[i] = 0;
    for (int p = ps.begin; p < ps.end; ++p) {
      for (int q = qs.begin; q < qs.end; ++q) {
        const int64_t at = pooled_at(s, place, p, q);
        const int here = (place.row + s.pad[0] - p * s.stride[0]) * s.window[1] + place.column +
                         s.pad[1] - q * s.stride[1];
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

__device__ int count(const Span& span) { return span.end - span.begin; }

template <class T>
__global__ void avg_forward(Shape s, const T* x, T* y, bool whole) {
  constexpr int N = kPack<T>;
  for_places<T>(s, s.p, s.q, [&](const Place& p) {
    const Span rows = window_span(s, 0, p.row, s.h), columns = window_span(s, 1, p.column, s.w);
    float sum[N], v[N];
    for (int i = 0; i < N; ++i) sum[i] = 0;
    for (int h = rows.begin; h < rows.end; ++h) {
      for (int w = columns.begin; w < columns.end; ++w) {
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
__global__ void avg_backward(Shape s, const T* dy, T* dx, bool whole) {
  constexpr int N = kPack<T>;
  for_places<T>(s, s.h, s.w, [&](const Place& place) {
    const Span ps = covering_span(s, 0, place.row, s.p),
               qs = covering_span(s, 1, place.column, s.q);
    float sum[N], v[N];
    for (int i = 0; i < N; ++i) sum[i] = 0;
    for (int p = ps.begin; p < ps.end; ++p) {
      const int rows = count(window_span(s, 0, p, s.h));
      for (int q = qs.begin; q < qs.end; ++q) {
        const float inverse = 1.0f / static_cast<float>(rows * count(window_span(s, 1, q, s.w)));
        load_pack<N>(dy + pooled_at(s, place, p, q), place.n, whole, v);
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
dim3 blocks_of(const PoolShape& s, int64_t pixels) {
  constexpr int64_t kMost = 32768;
  return dim3(blocks_for(pixels * ceil_div(s.c, kPack<T>)),
              static_cast<unsigned>(s.n < kMost ? s.n : kMost));
}

}  // namespace

void max_pool(Stream stream, Element element, const PoolShape& s, const void* x, void* y) {
  dispatch(element, [&]<class T>(T) {
    const auto kernel = whole_packs<T>(s, x, y) ? max_forward<T, true> : max_forward<T, false>;
    launch(stream, blocks_of<T>(s, s.p * s.q), kThreads, kernel, shape_of(s),
           static_cast<const T*>(x), static_cast<T*>(y));
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
             max_backward_2x2<T>, shape_of(s), static_cast<const T*>(x), static_cast<const T*>(dy),
             joined, static_cast<T*>(dx), whole);
      return;
    }
    const auto find = whole_packs<T>(s, x, which) ? max_position<T, true> : max_position<T, false>;
    launch(stream, blocks_of<T>(s, s.p * s.q), kThreads, find, shape_of(s),
           static_cast<const T*>(x), which);
    launch(stream, blocks_of<T>(s, s.h * s.w), kThreads, max_backward<T>, shape_of(s),
           static_cast<const T*>(x), static_cast<const uint16_t*>(which), static_cast<const T*>(dy),
           joined, static_cast<T*>(dx), whole);
  });
}

void avg_pool(Stream stream, Element element, const PoolShape& s, const void* x, void* y) {
  dispatch(element, [&]<class T>(T) {
    launch(stream, blocks_of<T>(s, s.p * s.q), kThreads, avg_forward<T>, shape_of(s),
           static_cast<const T*>(x), static_cast<T*>(y), whole_packs<T>(s, x, y));
  });
}

void avg_pool_grad(Stream stream, Element element, const PoolShape& s, const void* dy, void* dx) {
  dispatch(element, [&]<class T>(T) {
    launch(stream, blocks_of<T>(s, s.h * s.w), kThreads, avg_backward<T>, shape_of(s),
           static_cast<const T*>(dy), static_cast<T*>(dx), whole_packs<T>(s, dy, dx));
  });
}

}  // namespace assay::cuda::kernels
