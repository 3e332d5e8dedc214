// Depthwise convolutions of NHWC images: windows of 3x3 and 5x5 at strides of 1 and 2.
//
// What bounds them is memory, 2 accesses an element, as long as they do not compute too much
// beside: 5x5 in 16 bits multiplies 25 times and unpacks 10 times an element. A thread has a pack
// of channels of a few outputs beside each other, so that a row of the window, in registers, meets
// every pixel that it reads; rows are read again through the first-level cache.
//
// A block has up to kMostPacks packs of neighbouring channels, whose filters it keeps as f32. Every
// sum has one order: outputs are f32 sums over the window row by row; filters' gradients f32 sums
// of a thread, then f64 over the threads of a block, over blocks and over parts of them.
#include "sdk/backend/cuda/kernels/channel.h"
#include "sdk/backend/cuda/kernels/windows.h"

namespace assay::cuda::kernels {
namespace {

constexpr int kMostPacks = 8;  // of a block: 128 bytes of a pixel

// How threads share channels and strips of outputs; blockIdx.y counts groups of packs.
struct Strips {
  int packs;        // of a block
  int of_block;     // strips that a block has at once
  unsigned of_row;  // of outputs
  unsigned count;   // of all images
};

// A strip: outputs [first, first + its length) of a row of an image.
struct Strip {
  int image, row, first;
};
template <int kLength>
__device__ Strip strip_at(const Strips& strips, int rows, unsigned index) {
  const unsigned line = index / strips.of_row, image = line / static_cast<unsigned>(rows);
  return {static_cast<int>(image), static_cast<int>(line - image * static_cast<unsigned>(rows)),
          static_cast<int>(index - line * strips.of_row) * kLength};
}

// Calls use(strip) for those of a thread, which is number `place` of the threads of a block.
template <int kLength, class Use>
__device__ void for_strips(const Strips& strips, int rows, int place, const Use& use) {
  const auto of_block = static_cast<unsigned>(strips.of_block);
  for (unsigned i = blockIdx.x * of_block + static_cast<unsigned>(place); i < strips.count;
       i += gridDim.x * of_block)
    use(strip_at<kLength>(strips, rows, i));
}

// Where a thread's channels begin: among those of its block, and of all.
template <class T>
struct Channels {
  int in_block, first;
  __device__ explicit Channels(const Strips& strips)
      : in_block(static_cast<int>(threadIdx.x) % strips.packs * kPack<T>),
        first(static_cast<int>(blockIdx.y) * strips.packs * kPack<T> + in_block) {}
};

// filters[tap][channel of the block], from w [c, taps]; kFlipped: the taps in opposite order.
template <class T, int kTaps, bool kFlipped>
__device__ void load_filters(const Strips& strips, int channels, const T* w,
                             float (&filters)[kTaps][kMostPacks * kPack<T>]) {
  const int width = strips.packs * kPack<T>;
  const int begin = static_cast<int>(blockIdx.y) * width;
  for (int i = static_cast<int>(threadIdx.x); i < width * kTaps;
       i += static_cast<int>(blockDim.x)) {
    const int channel = i / kTaps, tap = i % kTaps;
    const bool exists = begin + channel < channels;
    filters[kFlipped ? kTaps - 1 - tap : tap][channel] =
        exists ? load(w[static_cast<int64_t>(begin) * kTaps + i]) : 0.0f;
  }
  __syncthreads();
}

// Reads packs [0, kCount) of a row of `columns` pixels from column `first` on, at these channels;
// pixels outside are 0.
template <int kCount, class T>
__device__ void read_row(const T* row, int channels, int columns, int first,
                         Pack<T> (&packs)[kCount]) {
  ASSAY_UNROLLED
  for (int j = 0; j < kCount; ++j) {
    const int column = first + j;
    packs[j] = column >= 0 && column < columns
                   ? read_pack<true>(row + static_cast<int64_t>(column) * channels, kPack<T>)
                   : Pack<T>{};
  }
}

// Likewise writes those pixels that there are.
template <int kCount, class T>
__device__ void store_row(T* row, int channels, int columns, int first,
                          const float (&pixels)[kCount][kPack<T>]) {
  ASSAY_UNROLLED
  for (int j = 0; j < kCount; ++j) {
    const int column = first + j;
    if (column < columns)
      store_pack<kPack<T>>(row + static_cast<int64_t>(column) * channels, kPack<T>, true,
                           pixels[j]);
  }
}

// Where row h of an image of s's x begins, at this channel.
__device__ inline int64_t row_at(const Shape& s, int image, int h, int channel) {
  return (static_cast<int64_t>(image) * s.h + h) * s.w * s.c + channel;
}
__device__ inline int64_t output_at(const Shape& s, int image, int p, int channel) {
  return (static_cast<int64_t>(image) * s.p + p) * s.q * s.c + channel;
}

// y [n, p, q, c] of x [n, h, w, c].
template <class T, int kWindow, int kStride, int kLength, bool kFlipped>
__global__ void __launch_bounds__(kThreads, 2)
    forward(Shape s, Strips strips, const T* x, const T* w, T* y) {
  constexpr int N = kPack<T>, kColumns = (kLength - 1) * kStride + kWindow;
  __shared__ float filters[kWindow * kWindow][kMostPacks * N];
  load_filters<T, kWindow * kWindow, kFlipped>(strips, s.c, w, filters);
  const Channels<T> channels(strips);
  const int place = static_cast<int>(threadIdx.x) / strips.packs;
  if (place >= strips.of_block || channels.first >= s.c) return;
  for_strips<kLength>(strips, s.p, place, [&](const Strip& strip) {
    float sum[kLength][N] = {};
    ASSAY_ROLLED
    for (int r = 0; r < kWindow; ++r) {
      const int h = strip.row * kStride - s.pad[0] + r;
      if (h < 0 || h >= s.h) continue;
      Pack<T> packs[kColumns];
      read_row(x + row_at(s, strip.image, h, channels.first), s.c, s.w,
               strip.first * kStride - s.pad[1], packs);
      float row[kWindow][N];
      ASSAY_UNROLLED
      for (int k = 0; k < kWindow; ++k)
        for (int c = 0; c < N; ++c) row[k][c] = filters[r * kWindow + k][channels.in_block + c];
      ASSAY_UNROLLED
      for (int j = 0; j < kColumns; ++j) {
        float v[N];
        unpack(packs[j], v);
        ASSAY_UNROLLED
        for (int k = 0; k < kLength; ++k) {
          const int tap = j - k * kStride;
          if (tap < 0 || tap >= kWindow) continue;
          for (int c = 0; c < N; ++c) sum[k][c] = fmaf(v[c], row[tap][c], sum[k][c]);
        }
      }
    }
    store_row(y + output_at(s, strip.image, strip.row, channels.first), s.c, s.q, strip.first, sum);
  });
}

// dx at a stride of 2, two pixels at a time, whose windows' outputs are the same few: of a pixel at
// `first + k` in them, the output of tap odd + k + 2 d is `base` - d. `odd`: the padding is.
template <class T, int kWindow, bool kOdd>
__global__ void __launch_bounds__(kThreads, 2)
    gradient_of_stride_2(Shape s, Strips strips, const T* dy, const T* w, T* dx) {
  constexpr int N = kPack<T>, kLength = 2;
  constexpr int kFirst = kOdd ? -1 : 0, kOutputs = (kWindow - 1 - kOdd) / 2 - kFirst + 1;
  __shared__ float filters[kWindow * kWindow][kMostPacks * N];
  load_filters<T, kWindow * kWindow, false>(strips, s.c, w, filters);
  const Channels<T> channels(strips);
  const int place = static_cast<int>(threadIdx.x) / strips.packs;
  if (place >= strips.of_block || channels.first >= s.c) return;
  for_strips<kLength>(strips, s.h, place, [&](const Strip& strip) {
    const int base = (strip.first + s.pad[1]) / 2;
    float sum[kLength][N] = {};
    ASSAY_ROLLED
    for (int r = (strip.row + s.pad[0]) % 2; r < kWindow; r += 2) {
      const int p = (strip.row + s.pad[0] - r) / 2;
      if (strip.row + s.pad[0] < r || p >= s.p) continue;
      Pack<T> packs[kOutputs];  // of the last output first
      const T* const row = dy + output_at(s, strip.image, p, channels.first);
      ASSAY_UNROLLED
      for (int j = 0; j < kOutputs; ++j) {
        const int q = base - (kFirst + j);
        packs[j] =
            q >= 0 && q < s.q ? read_pack<true>(row + static_cast<int64_t>(q) * s.c, N) : Pack<T>{};
      }
      ASSAY_UNROLLED
      for (int j = 0; j < kOutputs; ++j) {
        float v[N];
        unpack(packs[j], v);
        ASSAY_UNROLLED
        for (int k = 0; k < kLength; ++k) {
          const int tap = kOdd + k + 2 * (kFirst + j);
          if (tap < 0 || tap >= kWindow) continue;
          const float* const filter = &filters[r * kWindow + tap][channels.in_block];
          for (int c = 0; c < N; ++c) sum[k][c] = fmaf(v[c], filter[c], sum[k][c]);
        }
      }
    }
    store_row(dx + row_at(s, strip.image, strip.row, channels.first), s.c, s.w, strip.first, sum);
  });
}

// partial [block][tap][c]: of the filters' gradients what a block's strips of outputs give. Threads
// of a block share a strip: each has one row of the window.
template <class T, int kWindow, int kStride, int kLength>
__global__ void __launch_bounds__(kThreads, 2)
    gradient_of_filters(Shape s, Strips strips, const T* x, const T* dy, double* partial) {
  constexpr int N = kPack<T>, kColumns = (kLength - 1) * kStride + kWindow;
  __shared__ double shared[N][kThreads];
  const Channels<T> channels(strips);
  const int t = static_cast<int>(threadIdx.x);
  const int r = t / strips.packs % kWindow, place = t / (strips.packs * kWindow);
  float sum[kWindow][N] = {};
  if (place < strips.of_block && channels.first < s.c) {
    for_strips<kLength>(strips, s.p, place, [&](const Strip& strip) {
      const int h = strip.row * kStride - s.pad[0] + r;
      if (h < 0 || h >= s.h) return;
      Pack<T> arriving[kLength], packs[kColumns];
      read_row(dy + output_at(s, strip.image, strip.row, channels.first), s.c, s.q, strip.first,
               arriving);
      read_row(x + row_at(s, strip.image, h, channels.first), s.c, s.w,
               strip.first * kStride - s.pad[1], packs);
      float g[kLength][N];
      ASSAY_UNROLLED
      for (int k = 0; k < kLength; ++k) unpack(arriving[k], g[k]);
      ASSAY_UNROLLED
      for (int j = 0; j < kColumns; ++j) {
        float v[N];
        unpack(packs[j], v);
        ASSAY_UNROLLED
        for (int k = 0; k < kLength; ++k) {
          const int tap = j - k * kStride;
          if (tap < 0 || tap >= kWindow) continue;
          for (int c = 0; c < N; ++c) sum[tap][c] = fmaf(v[c], g[k][c], sum[tap][c]);
        }
      }
    });
  }
  const int step = strips.packs * kWindow;  // threads of a strip
  double* const out = partial +
                      (static_cast<int64_t>(blockIdx.x) * kWindow * kWindow + r * kWindow) * s.c +
                      channels.first;
  ASSAY_UNROLLED
  for (int tap = 0; tap < kWindow; ++tap) {
    for (int c = 0; c < N; ++c) shared[c][t] = static_cast<double>(sum[tap][c]);
    __syncthreads();
    if (place == 0 && channels.first < s.c) {
      for (int c = 0; c < N; ++c) {
        double total = 0;
        for (int k = 0; k < strips.of_block; ++k) total += shared[c][t + k * step];
        out[tap * static_cast<int64_t>(s.c) + c] = total;
      }
    }
    __syncthreads();
  }
}

// dw [c, taps] from partial [blocks][taps][c]: kParts threads share the blocks of one number.
constexpr int kParts = 8;
template <class T>
__global__ void finish_filters(const double* partial, int blocks, int taps, int channels, T* dw) {
  constexpr int kNumbers = kThreads / kParts;
  __shared__ double shared[kParts][kNumbers];
  const int number = static_cast<int>(threadIdx.x) % kNumbers;
  const int part = static_cast<int>(threadIdx.x) / kNumbers;
  const int64_t numbers = static_cast<int64_t>(taps) * channels;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kNumbers + number;
  const int of_part = (blocks + kParts - 1) / kParts, begin = part * of_part;
  const int n = least(of_part, blocks - begin);
  double sum[1] = {};
  if (i < numbers && n > 0) add_rows(partial + begin * numbers + i, n, numbers, sum);
  shared[part][number] = sum[0];
  __syncthreads();
  if (part != 0 || i >= numbers) return;
  for (int k = 1; k < kParts; ++k) sum[0] += shared[k][number];
  store(dw[i % channels * taps + i / channels], static_cast<float>(sum[0]));
}

// ---- On the host ------------------------------------------------------------------------------

// As even as can be, for few idle threads.
int packs_of_block(int64_t packs) {
  return static_cast<int>(ceil_div(packs, ceil_div(packs, kMostPacks)));
}

// Blocks of strips of `length` outputs in rows of so many, where `sharing` threads share a strip.
struct Grid {
  Strips strips;
  dim3 blocks;
};
template <class T>
Grid grid_of(int64_t lines, int64_t columns, int64_t channels, int length, int sharing,
             int64_t most_blocks) {
  const int64_t packs = ceil_div(channels, kPack<T>);
  Strips strips{};
  strips.packs = packs_of_block(packs);
  strips.of_block = kThreads / (strips.packs * sharing);
  strips.of_row = static_cast<unsigned>(ceil_div(columns, length));
  strips.count = static_cast<unsigned>(lines) * strips.of_row;
  const int64_t groups = ceil_div(packs, strips.packs);
  const int64_t wanted = ceil_div(strips.count, strips.of_block);
  const int64_t most = std::max<int64_t>(1, most_blocks / groups);
  return {strips, dim3(static_cast<unsigned>(std::clamp<int64_t>(wanted, 1, most)),
                       static_cast<unsigned>(groups))};
}

constexpr int64_t kMostBlocks = 1 << 20;
// Of filters' gradients: enough to fill a device a few times, few enough to add up.
constexpr int64_t kMostPartial = 512;

constexpr int forward_length(int stride) { return stride == 1 ? 4 : 2; }
// What a thread holds for larger windows and strides leaves room for less.
constexpr int filters_length(int window, int stride) { return window == 3 && stride == 1 ? 4 : 2; }

template <class T>
Grid grid_of_filters(const PoolShape& s) {
  return grid_of<T>(s.n * s.p, s.q, s.c,
                    filters_length(static_cast<int>(s.window[0]), static_cast<int>(s.stride[0])),
                    static_cast<int>(s.window[0]), kMostPartial);
}

template <class T, int kWindow, int kStride, bool kFlipped>
void run_forward(Stream stream, const PoolShape& s, const T* x, const T* w, T* y) {
  constexpr int kLength = forward_length(kStride);
  const Grid grid = grid_of<T>(s.n * s.p, s.q, s.c, kLength, 1, kMostBlocks);
  launch(stream, grid.blocks, kThreads, forward<T, kWindow, kStride, kLength, kFlipped>,
         shape_of(s), grid.strips, x, w, y);
}

template <class T, int kWindow>
void run_gradient_of_stride_2(Stream stream, const PoolShape& s, const T* dy, const T* w, T* dx) {
  const Grid grid = grid_of<T>(s.n * s.h, s.w, s.c, 2, 1, kMostBlocks);
  const bool odd = s.pad[1] % 2 == 1;
  launch(stream, grid.blocks, kThreads,
         odd ? gradient_of_stride_2<T, kWindow, true> : gradient_of_stride_2<T, kWindow, false>,
         shape_of(s), grid.strips, dy, w, dx);
}

template <class T, int kWindow, int kStride>
void run_gradient_of_filters(Stream stream, const PoolShape& s, const T* x, const T* dy,
                             double* partial, T* dw) {
  constexpr int kTaps = kWindow * kWindow;
  const Grid grid = grid_of_filters<T>(s);
  launch(stream, grid.blocks, kThreads,
         gradient_of_filters<T, kWindow, kStride, filters_length(kWindow, kStride)>, shape_of(s),
         grid.strips, x, dy, partial);
  launch(stream, static_cast<unsigned>(ceil_div(kTaps * s.c, kThreads / kParts)), kThreads,
         finish_filters<T>, partial, static_cast<int>(grid.blocks.x), kTaps, static_cast<int>(s.c),
         dw);
}

// Calls body<window, stride>.
template <class Body>
void dispatch(const PoolShape& s, const Body& body) {
  if (s.window[0] == 3)
    s.stride[0] == 1 ? body.template operator()<3, 1>() : body.template operator()<3, 2>();
  else
    s.stride[0] == 1 ? body.template operator()<5, 1>() : body.template operator()<5, 2>();
}

// The convolution of dy whose result is dx, where the stride is 1.
PoolShape backwards(const PoolShape& s) {
  PoolShape back = s;
  back.h = s.p, back.w = s.q, back.p = s.h, back.q = s.w;
  for (int axis = 0; axis < 2; ++axis) back.pad[axis] = s.window[axis] - 1 - s.pad[axis];
  return back;
}

}  // namespace

void depthwise(Stream stream, Element element, const PoolShape& s, const void* x, const void* w,
               void* y) {
  dispatch(element, [&]<class T>(T) {
    dispatch(s, [&]<int kWindow, int kStride>() {
      run_forward<T, kWindow, kStride, false>(stream, s, static_cast<const T*>(x),
                                              static_cast<const T*>(w), static_cast<T*>(y));
    });
  });
}

void depthwise_grad(Stream stream, Element element, const PoolShape& s, const void* dy,
                    const void* w, void* dx) {
  dispatch(element, [&]<class T>(T) {
    dispatch(s, [&]<int kWindow, int kStride>() {
      const auto *const g = static_cast<const T*>(dy), *const filters = static_cast<const T*>(w);
      if constexpr (kStride == 1)
        run_forward<T, kWindow, 1, true>(stream, backwards(s), g, filters, static_cast<T*>(dx));
      else
        run_gradient_of_stride_2<T, kWindow>(stream, s, g, filters, static_cast<T*>(dx));
    });
  });
}

size_t depthwise_grad_weight_bytes(Element element, const PoolShape& s) {
  size_t bytes = 0;
  dispatch(element, [&]<class T>(T) {
    bytes = static_cast<size_t>(grid_of_filters<T>(s).blocks.x * s.window[0] * s.window[1] * s.c) *
            sizeof(double);
  });
  return bytes;
}

void depthwise_grad_weight(Stream stream, Element element, const PoolShape& s, const void* x,
                           const void* dy, double* partial, void* dw) {
  dispatch(element, [&]<class T>(T) {
    dispatch(s, [&]<int kWindow, int kStride>() {
      run_gradient_of_filters<T, kWindow, kStride>(stream, s, static_cast<const T*>(x),
                                                   static_cast<const T*>(dy), partial,
                                                   static_cast<T*>(dw));
    });
  });
}

}  // namespace assay::cuda::kernels
