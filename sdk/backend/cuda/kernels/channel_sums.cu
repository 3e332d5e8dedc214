// Sums over rows per channel: of values, of products, of what passes an activation backwards.
#include "sdk/backend/cuda/kernels/channel.h"
#include "sdk/backend/cuda/kernels/epilogue.h"

namespace assay::cuda::kernels {
namespace {

// What sums of one kind have in common.
template <class T>
struct OneSum {
  static constexpr int kKinds = 1, kBatch = 4, kBlocks = 3;
  struct State {
    float sum[kPack<T>];
  };
  template <bool kWhole>
  __device__ void start(State& s, int64_t, int64_t, int) const {
    for (int i = 0; i < kPack<T>; ++i) s.sum[i] = 0;
  }
  __device__ void finish(const State& s, double, int i, double (&out)[1]) const {
    out[0] = static_cast<double>(s.sum[i]);
  }
};

// Of x, or of x * times.
template <class T, bool kProduct>
struct Sum : OneSum<T> {
  using State = typename OneSum<T>::State;
  struct Row {
    Pack<T> x, times;
  };
  const T *x, *times;
  template <bool kWhole>
  __device__ Row read(int64_t at, int n) const {
    Row row{read_pack<kWhole>(x + at, n), {}};
    if constexpr (kProduct) row.times = read_pack<kWhole>(times + at, n);
    return row;
  }
  template <bool kWhole>
  __device__ void add(State& s, const Row& row, int64_t, int) const {
    float v[kPack<T>], w[kPack<T>];
    unpack(row.x, v);
    if constexpr (kProduct) unpack(row.times, w);
    for (int i = 0; i < kPack<T>; ++i) s.sum[i] += kProduct ? v[i] * w[i] : v[i];
  }
};

// Of dx = dy * f'(saved): of relu, which is bound by memory, or of any kind.
template <class T, bool kIsRelu>
struct ActivationGradient : OneSum<T> {
  static constexpr int kBatch = kIsRelu ? 4 : 2, kBlocks = 2;  // registers for packs of two tensors
  using State = typename OneSum<T>::State;
  struct Row {
    Pack<T> saved, dy;
  };
  int kind;
  const T *saved, *dy;
  T* dx;
  template <bool kWhole>
  __device__ Row read(int64_t at, int n) const {
    return {read_pack<kWhole>(saved + at, n), read_pack<kWhole>(dy + at, n)};
  }
  template <bool kWhole>
  __device__ void add(State& s, const Row& row, int64_t at, int n) const {
    float y[kPack<T>], g[kPack<T>];
    unpack(row.saved, y);
    unpack(row.dy, g);
    for (int i = 0; i < kPack<T>; ++i) {
      g[i] = differentiate(kIsRelu ? static_cast<int>(kRelu) : kind, y[i], g[i]);
      s.sum[i] += g[i];
    }
    store_pack<kPack<T>>(dx + at, n, kWhole, g);
  }
};

struct WriteSum {
  float* y;
  __device__ void operator()(int64_t channel, const double (&totals)[1]) const {
    y[channel] = static_cast<float>(totals[0]);
  }
};

constexpr int kSlabColumns = 32, kSlabRows = 8;

// A block sums kSlabColumns channels of one slab at a time: each thread every kSlabRows-th row,
// then the rows of threads in their order.
// x, times [slabs, rows, channels], y [slabs, channels].
template <class T, bool kProduct>
__global__ void slab_sums(const T* x, const T* times, int64_t slabs, int64_t rows, int64_t channels,
                          float* y) {
  __shared__ double part[kSlabRows][kSlabColumns];
  const int64_t columns = (channels + kSlabColumns - 1) / kSlabColumns;
  const int column = static_cast<int>(threadIdx.x), lane = static_cast<int>(threadIdx.y);
  for (int64_t i = blockIdx.x; i < slabs * columns; i += gridDim.x) {
    const int64_t slab = i / columns, channel = i % columns * kSlabColumns + column;
    double sum = 0;
    if (channel < channels) {
      for (int64_t r = lane; r < rows; r += kSlabRows) {
        const int64_t at = (slab * rows + r) * channels + channel;
        float v = load(x[at]);
        if constexpr (kProduct) v *= load(times[at]);
        sum += static_cast<double>(v);
      }
    }
    part[lane][column] = sum;
    __syncthreads();
    if (lane == 0 && channel < channels) {
      for (int k = 1; k < kSlabRows; ++k) sum += part[k][column];
      y[slab * channels + channel] = static_cast<float>(sum);
    }
    __syncthreads();
  }
}

}  // namespace

size_t partial_sums_bytes(Element element, int64_t rows, int64_t channels, int kinds) {
  size_t bytes = 0;
  dispatch(element, [&]<class T>(T) {
    const Blocks blocks = blocks_of<T>(rows, channels, rows_of_thread<T>(rows, channels));
    const Groups groups = groups_of(blocks.grid);
    bytes = static_cast<size_t>((groups.blocks + groups.count) * kinds * channels) * sizeof(double);
  });
  return bytes;
}

void sum_rows(Stream stream, Element element, const void* x, const void* times, int64_t rows,
              int64_t channels, PartialSums to, float* y) {
  dispatch(element, [&]<class T>(T) {
    const T *a = static_cast<const T*>(x), *b = static_cast<const T*>(times);
    const auto sum = [&](const auto& term) {
      sum_and_finish<T>(stream, term, rows, channels, on_16_bytes(a, b), to, WriteSum{y});
    };
    b == nullptr ? sum(Sum<T, false>{{}, a, b}) : sum(Sum<T, true>{{}, a, b});
  });
}

void activation_grad_sums(Stream stream, Element element, ActivationKind kind, const void* saved,
                          const void* dy, void* dx, int64_t rows, int64_t channels, PartialSums to,
                          float* y) {
  dispatch(element, [&]<class T>(T) {
    const auto sum = [&]<bool kIsRelu>() {
      const ActivationGradient<T, kIsRelu> term{{},
                                                static_cast<int>(kind),
                                                static_cast<const T*>(saved),
                                                static_cast<const T*>(dy),
                                                static_cast<T*>(dx)};
      sum_and_finish<T>(stream, term, rows, channels, on_16_bytes(saved, dy, dx), to, WriteSum{y});
    };
    kind == kRelu ? sum.template operator()<true>() : sum.template operator()<false>();
  });
}

void sum_slabs(Stream stream, Element element, const void* x, const void* times, int64_t slabs,
               int64_t rows, int64_t channels, float* y) {
  if (slabs * channels == 0) return;
  const int64_t columns = ceil_div(channels, kSlabColumns);
  dispatch(element, [&]<class T>(T) {
    launch(stream, blocks_for(slabs * columns * kThreads), dim3(kSlabColumns, kSlabRows),
           times == nullptr ? slab_sums<T, false> : slab_sums<T, true>, static_cast<const T*>(x),
           static_cast<const T*>(times), slabs, rows, channels, y);
  });
}

}  // namespace assay::cuda::kernels
