// Batch normalisation with swish in front of squeeze-and-excitation: the map that also sums each
// image, and the gradient behind a gate for each image and channel.
#include "sdk/backend/cuda/kernels/channel.h"
#include "sdk/backend/cuda/kernels/epilogue.h"
#include "sdk/backend/cuda/kernels/norm_channels.h"

namespace assay::cuda::kernels {
namespace {

// ---- Forward ----------------------------------------------------------------------------------

// x, y [rows, channels], rows of all images; partial [block][channels].
template <class T>
__global__ void __launch_bounds__(kThreads, 2)
    apply_and_sum(const T* x, Affine affine, T* y, double* partial, ImageCut cut) {
  constexpr int N = kPack<T>;
  __shared__ double shared[N][kThreads];
  float sum[N] = {};
  int64_t channel = 0;
  int n = 0;
  for_channels<T>(cut, [&]<bool kWhole>(int64_t first, int elements) {
    channel = first, n = elements;
    float scale[N], shift[N];
    load_pack<N>(affine.scale + channel, elements, kWhole, scale);
    load_pack<N>(affine.shift + channel, elements, kWhole, shift);
    for_rows<kWhole ? 4 : 1>(
        cut, channel, [&](int64_t at) { return read_pack<kWhole>(x + at, elements); },
        [&](const Pack<T>& row, int64_t at) {
          float v[N];
          unpack(row, v);
          for (int i = 0; i < N; ++i) {
            v[i] = fmaf(v[i], scale[i], shift[i]);
            v[i] *= sigmoid(v[i]);
          }
          store_pack<N>(y + at, elements, kWhole, v);
          for (int i = 0; i < N; ++i) sum[i] += as_stored<T>(v[i]);
        });
  });
  add_threads(shared, n, partial + blockIdx.y * cut.channels + channel,
              [&](int i) { return static_cast<double>(sum[i]); });
}

// squeezed [images, channels] from the sums of the blocks of each image.
template <class T>
__global__ void finish_squeeze(const double* partial, int blocks_of_image, ImageRows size,
                               T* squeezed) {
  const int64_t i = global_thread();
  if (i >= size.images * size.channels) return;
  const int64_t image = i / size.channels, channel = i % size.channels;
  double sum[1];
  add_rows(partial + image * blocks_of_image * size.channels + channel, blocks_of_image,
           size.channels, sum);
  store(squeezed[i], static_cast<float>(sum[0] / static_cast<double>(size.rows)));
}

// ---- Backward ---------------------------------------------------------------------------------

// For N channels of an image: what the forward is computed again from, and what arrives.
template <class T>
struct Tables {
  float scale[kPack<T>], shift[kPack<T>], gate[kPack<T>], share[kPack<T>];

  template <bool kWhole>
  __device__ void load_gate(const Gate& from, int64_t at, int n, float of_pixel) {
    load_pack<kPack<T>>(static_cast<const T*>(from.gate) + at, n, kWhole, gate);
    load_pack<kPack<T>>(static_cast<const T*>(from.dsqueezed) + at, n, kWhole, share);
    for (int i = 0; i < kPack<T>; ++i) share[i] *= of_pixel;
  }
  // The gradient of what swish was applied to.
  __device__ float gradient(int i, float x, float dproduct) const {
    return differentiate(static_cast<int>(ActivationKind::kSwish), fmaf(x, scale[i], shift[i]),
                         fmaf(dproduct, gate[i], share[i]));
  }
};

template <class T>
struct GatedRow {
  Pack<T> x, dproduct;
};
template <class T, bool kWhole>
__device__ GatedRow<T> read_gated(const NormGradArgs& args, int64_t at, int n) {
  return {read_pack<kWhole>(static_cast<const T*>(args.x) + at, n),
          read_pack<kWhole>(static_cast<const T*>(args.dy) + at, n)};
}

// Sums of g and of g * (x - mean).
template <class T>
struct GatedSums {
  static constexpr int kKinds = 2, kBatch = 2, kBlocks = 2;
  using Row = GatedRow<T>;
  NormGradArgs args;
  Gate gate;
  NormInputs in;
  int64_t image_size, channels;
  float of_pixel;
  struct State {
    Tables<T> tables;
    float mean[kPack<T>], g[kPack<T>], gx[kPack<T>];
  };
  template <bool kWhole>
  __device__ void start(State& s, int64_t first_at, int64_t channel, int n) const {
    for (int i = 0; i < kPack<T>; ++i) {
      const int64_t k = i < n ? channel + i : channel;
      const ScaleAndShift made = affine_of(in, in.mean[k], in.var[k], k);
      s.tables.scale[i] = made.scale, s.tables.shift[i] = made.shift;
    }
    s.tables.template load_gate<kWhole>(gate, first_at / image_size * channels + channel, n,
                                        of_pixel);
    load_pack<kPack<T>>(in.mean + channel, n, kWhole, s.mean);
    for (int i = 0; i < kPack<T>; ++i) s.g[i] = s.gx[i] = 0;
  }
  template <bool kWhole>
  __device__ Row read(int64_t at, int n) const {
    return read_gated<T, kWhole>(args, at, n);
  }
  template <bool kWhole>
  __device__ void add(State& s, const Row& row, int64_t, int) const {
    float x[kPack<T>], g[kPack<T>];
    unpack(row.x, x);
    unpack(row.dproduct, g);
    for (int i = 0; i < kPack<T>; ++i) {
      g[i] = s.tables.gradient(i, x[i], g[i]);
      s.g[i] += g[i];
      s.gx[i] = fmaf(g[i], x[i] - s.mean[i], s.gx[i]);
    }
  }
  __device__ void finish(const State& s, double, int i, double (&out)[2]) const {
    out[0] = static_cast<double>(s.g[i]);
    out[1] = static_cast<double>(s.gx[i]);
  }
};

// dx [rows, channels].
template <class T>
__global__ void __launch_bounds__(kThreads, 2)
    apply_gated(NormGradArgs args, Gate gate, float of_pixel, T* dx, ImageCut cut) {
  constexpr int N = kPack<T>;
  for_channels<T>(cut, [&]<bool kWhole>(int64_t channel, int n) {
    Tables<T> tables;
    float b[N], c[N];
    load_pack<N>(args.affine.scale + channel, n, kWhole, tables.scale);
    load_pack<N>(args.affine.shift + channel, n, kWhole, tables.shift);
    tables.template load_gate<kWhole>(gate, cut.image() * cut.channels + channel, n, of_pixel);
    load_pack<N>(args.b + channel, n, kWhole, b);
    load_pack<N>(args.c + channel, n, kWhole, c);
    for_rows<kWhole ? 2 : 1>(
        cut, channel, [&](int64_t at) { return read_gated<T, kWhole>(args, at, n); },
        [&](const GatedRow<T>& row, int64_t at) {
          float x[N], g[N];
          unpack(row.x, x);
          unpack(row.dproduct, g);
          for (int i = 0; i < N; ++i)
            g[i] = fmaf(tables.scale[i], tables.gradient(i, x[i], g[i]), fmaf(b[i], x[i], c[i]));
          store_pack<N>(dx + at, n, kWhole, g);
        });
  });
}

// ---- On the host ------------------------------------------------------------------------------

struct ImageBlocks {
  Blocks blocks;
  ImageCut cut;
};
template <class T>
ImageBlocks image_blocks(const ImageRows& size, bool aligned) {
  int64_t of_thread = kRowsOfThread;
  Blocks blocks = blocks_of<T>(size.rows, size.channels, of_thread);
  while (blocks.grid.y > 1 && blocks.grid.y * size.images > kMostImages) {
    of_thread *= 2;
    blocks = blocks_of<T>(size.rows, size.channels, of_thread);
  }
  const auto of_image = static_cast<int>(blocks.grid.y);
  blocks.grid.y *= static_cast<unsigned>(size.images);
  return {blocks,
          {cut_of<T>(size.images * size.rows, size.channels, blocks, of_thread, aligned), size.rows,
           of_image}};
}

float share_of_pixel(const ImageRows& size) { return 1.0f / static_cast<float>(size.rows); }

bool aligned(const NormGradArgs& args, const Gate& gate, const void* more) {
  return on_16_bytes(args.x, args.dy, args.affine.scale, args.affine.shift, args.b, args.c,
                     gate.gate, gate.dsqueezed, more);
}

}  // namespace

size_t image_sums_bytes(Element element, const ImageRows& size) {
  constexpr int kKinds = 2;
  size_t bytes = 0;
  dispatch(element, [&]<class T>(T) {
    const Groups groups = groups_of(image_blocks<T>(size, true).blocks.grid);
    bytes = static_cast<size_t>((groups.blocks + groups.count) * kKinds * size.channels) *
            sizeof(double);
  });
  return bytes;
}

void squeezed_norm_apply(Stream stream, Element element, const void* x, Affine affine,
                         const ImageRows& size, double* sums, void* y, void* squeezed) {
  dispatch(element, [&]<class T>(T) {
    const auto [blocks, cut] = image_blocks<T>(size, on_16_bytes(x, y, affine.scale, affine.shift));
    launch(stream, blocks.grid, blocks.block, apply_and_sum<T>, static_cast<const T*>(x), affine,
           static_cast<T*>(y), sums, cut);
    launch(stream, blocks_for(size.images * size.channels), kThreads, finish_squeeze<T>, sums,
           cut.blocks_of_image, size, static_cast<T*>(squeezed));
  });
}

void squeezed_norm_grad_sums(Stream stream, Element element, const NormGradArgs& args,
                             const Gate& gate, const NormInputs& in, const ImageRows& size,
                             PartialSums to, float* dgamma, float* dbeta) {
  const FinishGradient finish{in, args, static_cast<double>(size.images * size.rows), dgamma,
                              dbeta};
  dispatch(element, [&]<class T>(T) {
    const auto [blocks, cut] = image_blocks<T>(size, aligned(args, gate, in.mean));
    const GatedSums<T> term{
        args, gate, in, size.rows * size.channels, size.channels, share_of_pixel(size)};
    launch(stream, blocks.grid, blocks.block,
           channel_sums<T, GatedSums<T>, FinishGradient, ImageCut>, term, cut,
           groups_of(blocks.grid), to, finish);
  });
}

void squeezed_norm_grad_apply(Stream stream, Element element, const NormGradArgs& args,
                              const Gate& gate, const ImageRows& size, void* dx) {
  dispatch(element, [&]<class T>(T) {
    const auto [blocks, cut] = image_blocks<T>(size, aligned(args, gate, dx));
    launch(stream, blocks.grid, blocks.block, apply_gated<T>, args, gate, share_of_pixel(size),
           static_cast<T*>(dx), cut);
  });
}

}  // namespace assay::cuda::kernels
