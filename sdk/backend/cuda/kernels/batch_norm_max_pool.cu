// Batch normalisation, relu and maxima over windows in one pass, and back.
#include "sdk/backend/cuda/kernels/windows.h"

namespace assay::cuda::kernels {
namespace {

// x [n, h, w, c]; y, peaks, winners [n, p, q, c]; likewise below.
template <class T, bool kWhole>
__global__ void __launch_bounds__(kThreads, 2)
    max_of_affine(Shape s, const T* x, Affine affine, T* y, T* peaks, uint8_t* winners) {
  constexpr int N = kPack<T>;
  for_places<T>(s, s.p, s.q, [&](const Place& p) {
    const Span rows = window_span(s, 0, p.row, s.h), columns = window_span(s, 1, p.column, s.w);
    const int head = (rows.begin - rows.first) * s.window[1] + (columns.begin - columns.first);
    float scale[N], shift[N], best[N], peak[N];
    int position[N];
    load_pack<N>(affine.scale + p.channel, p.n, kWhole, scale);
    load_pack<N>(affine.shift + p.channel, p.n, kWhole, shift);
    for (int i = 0; i < N; ++i) best[i] = -INFINITY, peak[i] = 0, position[i] = head;
    for_window<kWhole>(s, p, rows, columns, x, [&](const Pack<T>& pack, int h, int w) {
      const int here = (h - rows.first) * s.window[1] + (w - columns.first);
      float v[N];
      unpack(pack, v);
      for (int i = 0; i < N; ++i) {
        const float a = fmaf(v[i], scale[i], shift[i]);
        const float r = as_stored<T>(0.0f > a ? 0.0f : a);
        const bool first_nan = r != r && best[i] == best[i];
        if (r > best[i] || first_nan) best[i] = r, peak[i] = v[i], position[i] = here;
      }
    });
    Positions<uint8_t, N> found;
    for (int i = 0; i < N; ++i) found.of[i] = static_cast<uint8_t>(position[i]);
    store_pack<N>(y + p.at, p.n, kWhole, best);
    store_pack<N>(peaks + p.at, p.n, kWhole, peak);
    store_positions(winners + p.at, p.n, kWhole, found);
  });
}

// dx [n, h, w, c], as apply_gradient of batch_norm.cu makes it of what the windows pass.
template <class T>
__global__ void __launch_bounds__(kThreads, 2)
    apply_gathered(Shape s, NormGradArgs args, const uint8_t* winners, T* dx, bool whole) {
  constexpr int N = kPack<T>;
  for_places<T>(s, s.h, s.w, [&](const Place& p) {
    float x[N], g[N], scale[N], shift[N], b[N], c[N];
    load_pack<N>(static_cast<const T*>(args.x) + p.at, p.n, whole, x);
    gather_gradient(s, p, winners, static_cast<const T*>(args.dy), whole, g);
    load_pack<N>(args.affine.scale + p.channel, p.n, whole, scale);
    load_pack<N>(args.affine.shift + p.channel, p.n, whole, shift);
    load_pack<N>(args.b + p.channel, p.n, whole, b);
    load_pack<N>(args.c + p.channel, p.n, whole, c);
    for (int i = 0; i < N; ++i) {
      if (fmaf(x[i], scale[i], shift[i]) <= largest_zero<T>()) g[i] = 0;
      g[i] = fmaf(scale[i], g[i], fmaf(b[i], x[i], c[i]));
    }
    store_pack<N>(dx + p.at, p.n, whole, g);
  });
}

}  // namespace

void norm_max_pool(Stream stream, Element element, const PoolShape& s, const void* x, Affine affine,
                   void* y, void* peaks, uint8_t* winners) {
  dispatch(element, [&]<class T>(T) {
    const bool whole =
        whole_packs<T>(s, x, y) && on_16_bytes(peaks, winners, affine.scale, affine.shift);
    launch(stream, blocks_of<T>(s, s.p * s.q), kThreads,
           whole ? max_of_affine<T, true> : max_of_affine<T, false>, shape_of(s),
           static_cast<const T*>(x), affine, static_cast<T*>(y), static_cast<T*>(peaks), winners);
  });
}

void norm_max_pool_grad(Stream stream, Element element, const PoolShape& s,
                        const NormGradArgs& args, const uint8_t* winners, void* dx) {
  dispatch(element, [&]<class T>(T) {
    const bool whole =
        whole_packs<T>(s, args.x, args.dy) &&
        on_16_bytes(winners, dx, args.affine.scale, args.affine.shift, args.b, args.c);
    launch(stream, blocks_of<T>(s, s.h * s.w), kThreads, apply_gathered<T>, shape_of(s), args,
           winners, static_cast<T*>(dx), whole);
  });
}

}  // namespace assay::cuda::kernels
