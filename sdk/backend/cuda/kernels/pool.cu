// Pooling over NHWC: one thread per pixel and pack of channels.
//
// A NaN in a window wins and takes the gradient. Gradients are in gather form: every element of dx
// is written once, by one thread, so nothing depends on the order of threads.
#include "sdk/backend/cuda/kernels/epilogue.h"
#include "sdk/backend/cuda/kernels/windows.h"

namespace assay::cuda::kernels {
namespace {

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
    Positions<uint16_t, N> found;
    for (int i = 0; i < N; ++i) found.of[i] = static_cast<uint16_t>(position[i]);
    store_positions(which + p.at, p.n, kWhole, found);
  });
}

// Whether accesses may be 16 bytes wide.
struct Whole {
  bool pooled, addend;
};

// Where the addend of pixel (h, w) of this place's image stands; null if it has none.
template <class T>
__device__ const T* addend_at(const JoinedGradient& joined, const Place& place, int h, int w) {
  const int64_t image = place.image - joined.begin[0], row = h - joined.begin[1],
                column = w - joined.begin[2];
  if (joined.addend == nullptr || image < 0 || image >= joined.size[0] || row < 0 ||
      row >= joined.size[1] || column < 0 || column >= joined.size[2])
    return nullptr;
  const int64_t pixel = (image * joined.size[1] + row) * joined.size[2] + column;
  return static_cast<const T*>(joined.addend) + pixel * joined.pitch + place.channel;
}

// One thread per window, which finds its maximum again: that is cheaper than an index of it. Rows
// and columns that no window covers count as windows without a gradient. All is read before the
// first of it is used; kWhole is Whole::pooled.
template <class T, bool kWhole, bool kWholeAddend>
__global__ void __launch_bounds__(kThreads, 2)
    max_backward_2x2(Shape s, const T* x, const T* dy, JoinedGradient joined, T* dx) {
  constexpr int N = kPack<T>;
  for_places<T>(s, (s.h + 1) / 2, (s.w + 1) / 2, [&](const Place& place) {
    const bool covered = place.row < s.p && place.column < s.q;
    const auto h_of = [&](int k) { return 2 * place.row + k / 2; };
    const auto w_of = [&](int k) { return 2 * place.column + k % 2; };
    Pack<T> packs[4] = {}, arriving = {}, addends[4] = {};
    bool inside[4], has_addend[4];
    ASSAY_UNROLLED
    for (int k = 0; k < 4; ++k) {
      inside[k] = h_of(k) < s.h && w_of(k) < s.w;
      const T* const addend = inside[k] ? addend_at<T>(joined, place, h_of(k), w_of(k)) : nullptr;
      has_addend[k] = addend != nullptr;
      if (inside[k])
        packs[k] = read_pack<kWhole>(x + pixel_at(s, place, h_of(k), w_of(k)), place.n);
      if (has_addend[k]) addends[k] = read_pack<kWholeAddend>(addend, place.n);
    }
    if (covered)
      arriving = read_pack<kWhole>(dy + pooled_at(s, place, place.row, place.column), place.n);
    float v[N], best[N], gradient[N];
    int winner[N];
    unpack(arriving, gradient);
    for (int i = 0; i < N; ++i) best[i] = -INFINITY, winner[i] = covered ? 0 : 4;
    ASSAY_UNROLLED
    for (int k = 0; k < 4; ++k) {
      if (!inside[k]) continue;
      unpack(packs[k], v);
      for (int i = 0; i < N; ++i) {
        const bool first_nan = v[i] != v[i] && best[i] == best[i];
        if (covered && (v[i] > best[i] || first_nan)) best[i] = v[i], winner[i] = k;
      }
    }
    ASSAY_UNROLLED
    for (int k = 0; k < 4; ++k) {
      if (!inside[k]) continue;
      float sum[N], addend[N];
      for (int i = 0; i < N; ++i) sum[i] = winner[i] == k ? gradient[i] : 0.0f;
      unpack(addends[k], addend);
      unpack(packs[k], v);
      for (int i = 0; i < N; ++i) {
        if (has_addend[k]) sum[i] += addend[i];
        sum[i] = differentiate(joined.kind, v[i], sum[i]);
      }
      store_pack<N>(dx + pixel_at(s, place, h_of(k), w_of(k)), place.n, kWhole, sum);
    }
  });
}

// which, dy [n, p, q, c], x, dx [n, h, w, c]; x is read only for the activation.
template <class T>
__global__ void max_backward(Shape s, const T* x, const uint16_t* which, const T* dy,
                             JoinedGradient joined, T* dx, Whole whole) {
  constexpr int N = kPack<T>;
  for_places<T>(s, s.h, s.w, [&](const Place& place) {
    float sum[N], v[N] = {};
    gather_gradient(s, place, which, dy, whole.pooled, sum);
    if (joined.kind != static_cast<int>(kNone))
      load_pack<N>(x + place.at, place.n, whole.pooled, v);
    if (const T* const at = addend_at<T>(joined, place, place.row, place.column)) {
      float addend[N];
      load_pack<N>(at, place.n, whole.addend, addend);
      for (int i = 0; i < N; ++i) sum[i] += addend[i];
    }
    for (int i = 0; i < N; ++i) sum[i] = differentiate(joined.kind, v[i], sum[i]);
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
             whole.pooled && whole.addend ? max_backward_2x2<T, true, true>
             : whole.pooled               ? max_backward_2x2<T, true, false>
                                          : max_backward_2x2<T, false, false>,
             shape_of(s), static_cast<const T*>(x), static_cast<const T*>(dy), joined,
             static_cast<T*>(dx));
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
