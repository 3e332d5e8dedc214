// Weighted sums of images of which some have half the size, and their gradients.
//
// A thread works on cells of four packs of channels: of one pixel of a halved image, the packs of
// the four that it stands for; without halved images four that follow each other in memory.
#include "sdk/backend/cuda/kernels/channel.h"
#include "sdk/backend/cuda/kernels/epilogue.h"

namespace assay::cuda::kernels {
namespace {

constexpr int kPixels = 4;
constexpr int64_t kMostBlocks = 4096;
// Packs of each image that are read before the first is used, as far as there are registers.
template <bool kHalf, int kCount>
constexpr int kBatchOf = kHalf&& kCount == 3 ? 1 : 2;

// How images are cut into cells.
struct Cells {
  int64_t count, full;         // the first are of full packs on 16-byte boundaries
  int64_t elements;            // of y
  uint32_t channels, columns;  // columns of the halved images
  uint32_t packs;              // of a pixel
};

// Where the packs of a cell are: in y and the images of its size, and in the halved ones.
struct Cell {
  int64_t first, half_at;
  int64_t next, below;  // from a pack to the one beside it, and to the one below
  int64_t left;         // elements that there are from `first` on, or of each pack

  __device__ int64_t at(int k) const { return first + (k % 2) * next + (k / 2) * below; }
};

template <class T, bool kHalf>
__device__ Cell cell_of(const Cells& cells, int64_t index) {
  constexpr int N = kPack<T>;
  if constexpr (!kHalf) {
    const int64_t first = index * kPixels * N;
    return {first, 0, N, 2 * N, cells.elements - first};
  }
  const auto i = static_cast<uint32_t>(index);
  const uint32_t pixel = i / cells.packs, channel = (i - pixel * cells.packs) * N;
  const uint32_t row = pixel / cells.columns, column = pixel - row * cells.columns;
  const int64_t channels = cells.channels, pitch = 2 * channels * cells.columns;  // of a row of y
  return {2 * row * pitch + 2 * column * channels + channel, pixel * channels + channel, channels,
          pitch, channels - channel};
}

// How many elements pack k has.
template <class T, bool kHalf, bool kWhole>
__device__ int length_of(const Cell& cell, int k) {
  constexpr int N = kPack<T>;
  if constexpr (kWhole) return N;
  const int64_t left = kHalf ? cell.left : cell.left - k * N;
  return left >= N ? N : left > 0 ? static_cast<int>(left) : 0;
}

// The weights by their sum, which the thread makes itself: less work than a launch.
template <int kCount>
struct Shares {
  float share[kCount], total;
  __device__ Shares(const float* w, float epsilon) : total(epsilon) {
    for (int i = 0; i < kCount; ++i) total += w[i];
    for (int i = 0; i < kCount; ++i) share[i] = w[i] / total;
  }
};

// A pack of each image for one pixel: those of halved images are read once for all four.
template <class T, int kCount>
struct Packs {
  Pack<T> x[kCount];
};
template <class T, bool kWhole, bool kOfHalved, int kCount>
__device__ void read_images(const FusionArgs& args, int64_t at, int n, Packs<T, kCount>& packs) {
  for (int i = 0; i < kCount; ++i) {
    if (args.is_half[i] == kOfHalved)
      packs.x[i] = read_pack<kWhole>(static_cast<const T*>(args.x[i]) + at, n);
  }
}

template <class T, int kCount>
__device__ void add_up(const Shares<kCount>& shares, const Packs<T, kCount>& packs,
                       float (&sum)[kPack<T>]) {
  float x[kPack<T>];
  for (int i = 0; i < kCount; ++i) {
    unpack(packs.x[i], x);
    for (int c = 0; c < kPack<T>; ++c)
      sum[c] = i == 0 ? x[c] * shares.share[0] : fmaf(x[c], shares.share[i], sum[c]);
  }
}

// body<whole>(cell) for the cells of this thread.
template <class T, bool kHalf, class Body>
__device__ void for_cells(const Cells& cells, const Body& body) {
  int64_t i = global_thread();
  ASSAY_ROLLED
  for (; i < cells.full; i += total_threads())
    body.template operator()<true>(cell_of<T, kHalf>(cells, i));
  ASSAY_ROLLED
  for (; i < cells.count; i += total_threads())
    body.template operator()<false>(cell_of<T, kHalf>(cells, i));
}

template <class T, bool kHalf, int kCount>
__global__ void __launch_bounds__(kThreads, kHalf ? 2 : 3)
    fuse(FusionArgs args, Cells cells, T* y) {
  constexpr int kBatch = kBatchOf<kHalf, kCount>;
  const Shares<kCount> shares(args.w, args.epsilon);
  for_cells<T, kHalf>(cells, [&]<bool kWhole>(const Cell& cell) {
    Packs<T, kCount> halved{};
    if constexpr (kHalf)
      read_images<T, kWhole, true>(args, cell.half_at, length_of<T, kHalf, kWhole>(cell, 0),
                                   halved);
    ASSAY_ROLLED
    for (int first = 0; first < kPixels; first += kBatch) {
      Packs<T, kCount> batch[kBatch];
      for (int k = 0; k < kBatch; ++k) {
        batch[k] = halved;
        read_images<T, kWhole, false>(args, cell.at(first + k),
                                      length_of<T, kHalf, kWhole>(cell, first + k), batch[k]);
      }
      for (int k = 0; k < kBatch; ++k) {
        float sum[kPack<T>];
        add_up(shares, batch[k], sum);
        if (args.activation == ActivationKind::kSwish) {
          for (int c = 0; c < kPack<T>; ++c) sum[c] *= sigmoid(sum[c]);
        }
        store_pack<kPack<T>>(y + cell.at(first + k), length_of<T, kHalf, kWhole>(cell, first + k),
                             kWhole, sum);
      }
    }
  });
}

// dx = share * g, and x * g added to the sums, of the images that are halved or of the others.
template <class T, bool kWhole, bool kOfHalved, int kCount>
__device__ void share_out(const FusionArgs& args, const Shares<kCount>& shares,
                          const Packs<T, kCount>& packs, int64_t at, int n,
                          const float (&g)[kPack<T>], double (&sums)[kCount]) {
  for (int i = 0; i < kCount; ++i) {
    if (args.is_half[i] != kOfHalved) continue;
    float x[kPack<T>], d[kPack<T>], sum = 0;
    unpack(packs.x[i], x);
    for (int c = 0; c < kPack<T>; ++c) {
      sum = fmaf(x[c], g[c], sum);  // 0 beyond n
      d[c] = shares.share[i] * g[c];
    }
    store_pack<kPack<T>>(static_cast<T*>(args.dx[i]) + at, n, kWhole, d);
    sums[i] += static_cast<double>(sum);
  }
}

// With t_i the sums of x_i g: dw_i = (t_i - sum_j share_j t_j) / total. partial [blocks][kCount];
// the block that comes last adds up.
template <int kCount>
__device__ void finish_weights(const FusionArgs& args, const Shares<kCount>& shares,
                               const double (&sums)[kCount], const PartialSums& to, float* dw) {
  __shared__ double shared[kThreads];
  const auto t = static_cast<int>(threadIdx.x), blocks = static_cast<int>(gridDim.x);
  ASSAY_UNROLLED
  for (int i = 0; i < kCount; ++i) {
    const double sum = block_sum(sums[i], shared);
    if (t == 0) to.sums[static_cast<int64_t>(blockIdx.x) * kCount + i] = sum;
  }
  if (blocks > 1 && !arrives_last(to.arrivals, blocks)) return;
  double totals[kCount] = {};
  ASSAY_ROLLED
  for (int block = t; block < blocks; block += kThreads)
    for (int i = 0; i < kCount; ++i)
      totals[i] += __ldcg(to.sums + static_cast<int64_t>(block) * kCount + i);
  double mean = 0;
  ASSAY_UNROLLED
  for (int i = 0; i < kCount; ++i) {
    totals[i] = block_sum(totals[i], shared);
    mean += static_cast<double>(shares.share[i]) * totals[i];
  }
  double total = 0;
  for (int i = 0; i < kCount; ++i) total = t == i ? totals[i] : total;
  if (t < kCount) dw[t] = static_cast<float>((total - mean) / static_cast<double>(shares.total));
}

template <class T, bool kHalf, int kCount>
__global__ void __launch_bounds__(kThreads, 2)
    fuse_gradient(FusionArgs args, Cells cells, const T* dy, PartialSums to, float* dw) {
  constexpr int N = kPack<T>, kBatch = kBatchOf<kHalf, kCount>;
  const Shares<kCount> shares(args.w, args.epsilon);
  double sums[kCount] = {};
  for_cells<T, kHalf>(cells, [&]<bool kWhole>(const Cell& cell) {
    const int n = length_of<T, kHalf, kWhole>(cell, 0);
    Packs<T, kCount> halved{};
    if constexpr (kHalf) read_images<T, kWhole, true>(args, cell.half_at, n, halved);
    float total[N] = {};
    ASSAY_ROLLED
    for (int first = 0; first < kPixels; first += kBatch) {
      Packs<T, kCount> batch[kBatch];
      Pack<T> gradients[kBatch];
      for (int k = 0; k < kBatch; ++k) {
        const int length = length_of<T, kHalf, kWhole>(cell, first + k);
        batch[k] = halved;
        read_images<T, kWhole, false>(args, cell.at(first + k), length, batch[k]);
        gradients[k] = read_pack<kWhole>(dy + cell.at(first + k), length);
      }
      ASSAY_UNROLLED
      for (int k = 0; k < kBatch; ++k) {
        float g[N];
        unpack(gradients[k], g);
        if (args.activation == ActivationKind::kSwish) {
          float sum[N];
          add_up(shares, batch[k], sum);
          for (int c = 0; c < N; ++c) {
            const float s = sigmoid(sum[c]);
            g[c] *= s * fmaf(sum[c], 1.0f - s, 1.0f);
          }
        }
        share_out<T, kWhole, false>(args, shares, batch[k], cell.at(first + k),
                                    length_of<T, kHalf, kWhole>(cell, first + k), g, sums);
        for (int c = 0; c < N; ++c) total[c] += g[c];
      }
    }
    if constexpr (kHalf)
      share_out<T, kWhole, true>(args, shares, halved, cell.half_at, n, total, sums);
  });
  finish_weights(args, shares, sums, to, dw);
}

bool has_half(const FusionArgs& args) {
  bool found = false;
  for (int i = 0; i < args.count; ++i) found = found || args.is_half[i];
  return found;
}

template <class T>
Cells cells_of(const FusionArgs& args, const void* y) {
  constexpr int N = kPack<T>;
  Cells cells{};
  cells.elements = args.rows * args.columns * args.channels;
  cells.channels = static_cast<uint32_t>(args.channels);
  cells.columns = static_cast<uint32_t>(args.columns / 2);
  cells.packs = static_cast<uint32_t>(ceil_div(args.channels, N));
  const int64_t of_cell = kPixels * N;
  cells.count = has_half(args) ? args.rows / 2 * (args.columns / 2) * cells.packs
                               : ceil_div(cells.elements, of_cell);
  bool aligned = on_16_bytes(y);
  for (int i = 0; i < args.count; ++i) aligned = aligned && on_16_bytes(args.x[i], args.dx[i]);
  if (aligned && !has_half(args)) cells.full = cells.elements / of_cell;
  if (aligned && has_half(args) && args.channels % N == 0) cells.full = cells.count;
  return cells;
}

unsigned grid_of(int64_t cells) {
  return static_cast<unsigned>(
      std::min(ceil_div(std::max<int64_t>(cells, 1), kThreads), kMostBlocks));
}

// body<T, whether an image is halved, how many there are>()
template <class Body>
void dispatch_fusion(Element element, const FusionArgs& args, const Body& body) {
  dispatch(element, [&]<class T>(T) {
    const auto of_count = [&]<bool kHalf>() {
      if (args.count == 2) return body.template operator()<T, kHalf, 2>();
      body.template operator()<T, kHalf, 3>();
    };
    has_half(args) ? of_count.template operator()<true>() : of_count.template operator()<false>();
  });
}

}  // namespace

void weighted_fusion(Stream stream, Element element, const FusionArgs& args, void* y) {
  dispatch_fusion(element, args, [&]<class T, bool kHalf, int kCount>() {
    const Cells cells = cells_of<T>(args, y);
    launch(stream, grid_of(cells.count), kThreads, fuse<T, kHalf, kCount>, args, cells,
           static_cast<T*>(y));
  });
}

size_t weighted_fusion_sums_bytes() {
  return static_cast<size_t>(kMostBlocks * kMostFusedImages) * sizeof(double);
}

void weighted_fusion_grad(Stream stream, Element element, const FusionArgs& args, const void* dy,
                          PartialSums to, float* dw) {
  dispatch_fusion(element, args, [&]<class T, bool kHalf, int kCount>() {
    const Cells cells = cells_of<T>(args, dy);
    launch(stream, grid_of(cells.count), kThreads, fuse_gradient<T, kHalf, kCount>, args, cells,
           static_cast<const T*>(dy), to, dw);
  });
}

}  // namespace assay::cuda::kernels
