// Layer normalisation: several threads share a row (rows.h), each moving packs of 16 bytes. Sums
// over a row are f32; z is rounded to its type before it is looked at, as the gradient will find
// it. The gradient reads everything once: a thread keeps its packs of a row, and of every row that
// its block comes to, in registers, with the sums of their channels. These are f32 within a block,
// over as many rows as it has, and f64 over the blocks in their order. Rows that do not fit the
// registers are read twice. Shapes: see kernels.h; partial [blocks, kKinds, channels].
#include "sdk/backend/cuda/kernels/philox.h"
#include "sdk/backend/cuda/kernels/rows.h"

namespace assay::cuda::kernels {
namespace {

constexpr int kKinds = 3;             // sums of a channel: dgamma, dbeta, what arrives at x
constexpr int64_t kProcessors = 132;  // of an H200
constexpr int64_t kElements = 32;     // of a row, that a thread has room for

// body(c, n) for each pack of the row that belongs to this thread: elements c to c + n - 1.
template <int N, class Body>
__device__ void for_packs(const Rows& r, const Body& body) {
  for (int64_t c = r.lane() * N; c < r.size; c += static_cast<int64_t>(r.width) * N)
    body(c, r.size - c < N ? static_cast<int>(r.size - c) : N);
}

// v [N], elements from `begin` of the tensor on. In whole rows these begin with a draw, whose words
// stay in registers then.
template <int N>
__device__ void drop(const RowDropout& dropout, int64_t begin, bool whole, float (&v)[N]) {
  const auto step = static_cast<uint64_t>(*dropout.step);
  const auto keep = [&](float& value, uint32_t word) {
    value = word >= dropout.args.drop_below ? value * dropout.args.scale : 0.0f;
  };
  uint32_t words[4];
  if constexpr (N % 4 == 0) {
    if (whole) {
      ASSAY_UNROLLED
      for (int k = 0; k < N; ++k) {
        if (k % 4 == 0) draw(dropout.args, step, (begin + k) / 4, words);
        keep(v[k], words[k % 4]);
      }
      return;
    }
  }
  for (int k = 0; k < N; ++k) {
    const int64_t element = begin + k;
    if (k == 0 || element % 4 == 0) draw(dropout.args, step, element / 4, words);
    const int64_t which = element % 4;  // not as an index: that would take memory
    keep(v[k], which == 0 ? words[0] : which == 1 ? words[1] : which == 2 ? words[2] : words[3]);
  }
}

// z = dropout(x) + residual, of this thread's packs.
template <class T>
__device__ void join(const Rows& r, const LayerNormArgs& args, int64_t begin, bool whole) {
  constexpr int N = kPack<T>;
  const T* x = static_cast<const T*>(args.x) + begin;
  T* z = static_cast<T*>(args.z) + begin;
  for_packs<N>(r, [&](int64_t c, int n) {
    float v[N];
    load_pack<N>(x + c, n, whole, v);
    if (args.dropout.step != nullptr) drop<N>(args.dropout, begin + c, whole, v);
    if (args.residual != nullptr) {
      float more[N];
      load_pack<N>(static_cast<const T*>(args.residual) + begin + c, n, whole, more);
      for (int k = 0; k < N; ++k) v[k] += more[k];
    }
    store_pack<N>(z + c, n, whole, v);
  });
}

template <class T>
__global__ void normalise(Rows r, LayerNormArgs args, bool whole) {
  constexpr int N = kPack<T>;
  __shared__ float shared[kThreads];
  const int64_t row = r.row(), begin = row * r.size;
  const bool has_row = row < r.rows;
  if (has_row && args.z != nullptr) join<T>(r, args, begin, whole);
  const T* z = static_cast<const T*>(args.z != nullptr ? args.z : args.x) + begin;
  float sum = 0;
  if (has_row) {
    for_packs<N>(r, [&](int64_t c, int n) {
      float v[N];
      load_pack<N>(z + c, n, whole, v);
      for (int k = 0; k < N; ++k) sum += v[k];  // 0 beyond the row
    });
  }
  const float mean = row_reduce(r, sum, shared, Plus{}) / static_cast<float>(r.size);
  float squares = 0;
  if (has_row) {
    for_packs<N>(r, [&](int64_t c, int n) {
      float v[N];
      load_pack<N>(z + c, n, whole, v);
      for (int k = 0; k < n; ++k) squares += (v[k] - mean) * (v[k] - mean);
    });
  }
  const float variance = row_reduce(r, squares, shared, Plus{}) / static_cast<float>(r.size);
  if (!has_row) return;
  const float rstd = 1.0f / sqrtf(variance + args.epsilon);
  T* y = static_cast<T*>(args.y) + begin;
  for_packs<N>(r, [&](int64_t c, int n) {
    float v[N], gamma[N], beta[N];
    load_pack<N>(z + c, n, whole, v);
    load_pack<N>(args.gamma + c, n, whole, gamma);
    load_pack<N>(args.beta + c, n, whole, beta);
    for (int k = 0; k < N; ++k) v[k] = (v[k] - mean) * rstd * gamma[k] + beta[k];
    store_pack<N>(y + c, n, whole, v);
  });
  if (r.lane() == 0) args.mean[row] = mean, args.rstd[row] = rstd;
}

// A thread's elements of a row: packs at a distance of the row's threads.
template <int kPacks, int N>
using Held = float[kPacks][N];

// What a thread has of its channels' sums.
template <int kPacks, int N>
struct ChannelSums {
  Held<kPacks, N> of[kKinds];
};

// The gradient that arrives: dy, or its sum with the addend, rounded as if it had been stored.
template <bool kWhole, class T>
__device__ void load_arriving(const LayerNormGradArgs& args, int64_t at, int n,
                              float (&g)[kPack<T>], T) {
  unpack(read_pack<kWhole>(static_cast<const T*>(args.dy) + at, n), g);
  if (args.addend == nullptr) return;
  float more[kPack<T>];
  unpack(read_pack<kWhole>(static_cast<const T*>(args.addend) + at, n), more);
  for (int k = 0; k < kPack<T>; ++k) g[k] = as_stored<T>(g[k] + more[k]);
}

// Adds a block's sums over its slots of rows, and leaves them in its part of `partial`.
template <int kPacks, int N>
__device__ void keep_sums(const Rows& r, const ChannelSums<kPacks, N>& sums, float* partial) {
  __shared__ float shared[N][kThreads];
  const int t = static_cast<int>(threadIdx.x);
  float* const mine = partial + blockIdx.x * int64_t{kKinds} * r.size;
  ASSAY_UNROLLED
  for (int kind = 0; kind < kKinds; ++kind) {
    ASSAY_UNROLLED
    for (int p = 0; p < kPacks; ++p) {
      for (int k = 0; k < N; ++k) shared[k][t] = sums.of[kind][p][k];
      __syncthreads();
      const int64_t c = (r.lane() + static_cast<int64_t>(p) * r.width) * N;
      for (int k = 0; t < r.width && k < N; ++k) {
        if (c + k >= r.size) break;
        float sum = 0;
        for (int slot = t; slot < kThreads; slot += r.width) sum += shared[k][slot];
        mine[kind * r.size + c + k] = sum;
      }
      __syncthreads();
    }
  }
}

struct Means {
  float g, gx;
};
// Over the elements of a row, of what its threads have of it.
__device__ Means row_means(const Rows& r, Means terms, Means* shared) {
  const auto plus = [](Means a, Means b) { return Means{a.g + b.g, a.gx + b.gx}; };
  const Means sums = row_reduce(r, terms, shared, plus);
  const auto size = static_cast<float>(r.size);
  return {sums.g / size, sums.gx / size};
}

// With x' = (z - mean) * rstd and g = dy * gamma: dz = rstd * (g - mean(g) - x' * mean(g * x')).
template <class T, int kPacks, bool kWhole>
__global__ void __launch_bounds__(kThreads, kPacks* kPack<T> <= 8 ? 2 : 1)
    gradient(Rows r, LayerNormGradArgs args, float* partial) {
  constexpr int N = kPack<T>;
  __shared__ Means shared[kThreads];
  ChannelSums<kPacks, N> sums{};
  const int64_t of_block = kThreads / r.width, slot = threadIdx.x / r.width;
  const auto channel = [&](int p) { return (r.lane() + static_cast<int64_t>(p) * r.width) * N; };
  const auto count = [&](int64_t c) {  // of a pack's channels that there are
    const int64_t left = r.size - c;
    return static_cast<int>(left < 0 ? 0 : left < N ? left : N);
  };
  for (int64_t first = blockIdx.x * of_block; first < r.rows; first += gridDim.x * of_block) {
    const int64_t row = first + slot, begin = row * r.size;
    const bool has_row = row < r.rows;
    Held<kPacks, N> normal = {}, arriving = {};
    ASSAY_UNROLLED
    for (int p = 0; p < kPacks; ++p) {
      const int n = has_row ? count(channel(p)) : 0;
      if (n == 0) continue;
      unpack(read_pack<kWhole>(static_cast<const T*>(args.z) + begin + channel(p), n), normal[p]);
      load_arriving<kWhole>(args, begin + channel(p), n, arriving[p], T{});
    }
    const float mean = has_row ? args.mean[row] : 0, rstd = has_row ? args.rstd[row] : 0;
    Means terms{};
    ASSAY_UNROLLED
    for (int p = 0; p < kPacks; ++p) {
      const int n = has_row ? count(channel(p)) : 0;
      if (n == 0) continue;
      float gamma[N];
      load_pack<N>(args.gamma + channel(p), n, kWhole, gamma);
      for (int k = 0; k < N; ++k) {
        normal[p][k] = (normal[p][k] - mean) * rstd;
        const float g = arriving[p][k] * gamma[k];  // 0 beyond the row
        terms.g += g, terms.gx += g * normal[p][k];
      }
    }
    const Means means = row_means(r, terms, shared);
    ASSAY_UNROLLED
    for (int p = 0; p < kPacks; ++p) {
      const int n = has_row ? count(channel(p)) : 0;
      if (n == 0) continue;
      float gamma[N], g[N];
      load_pack<N>(args.gamma + channel(p), n, kWhole, gamma);
      for (int k = 0; k < N; ++k) {
        const float d = arriving[p][k];
        sums.of[0][p][k] += d * normal[p][k];
        sums.of[1][p][k] += d;
        g[k] = rstd * (d * gamma[k] - means.g - normal[p][k] * means.gx);
      }
      const int64_t at = begin + channel(p);
      store_pack<N>(static_cast<T*>(args.dz) + at, n, kWhole, g);
      if (args.dropout.step != nullptr) {
        drop<N>(args.dropout, at, kWhole, g);
        store_pack<N>(static_cast<T*>(args.dx) + at, n, kWhole, g);
      }
      for (int k = 0; k < N; ++k) sums.of[2][p][k] += k < n ? g[k] : 0.0f;
    }
  }
  keep_sums(r, sums, partial);
}

// The same of rows that do not fit the registers: a block has one at a time, reads it twice, and
// keeps its sums in memory, each of them of one thread.
template <class T>
__global__ void gradient_of_wide_rows(Rows r, LayerNormGradArgs args, float* partial) {
  __shared__ Means shared[kThreads];
  float* const sums = partial + blockIdx.x * int64_t{kKinds} * r.size;
  for (int64_t c = r.lane(); c < kKinds * r.size; c += r.width) sums[c] = 0;
  __syncthreads();
  for (int64_t row = blockIdx.x; row < r.rows; row += gridDim.x) {
    const int64_t begin = row * r.size;
    const float mean = args.mean[row], rstd = args.rstd[row];
    const auto for_elements = [&](const auto& body) {
      for (int64_t c = r.lane(); c < r.size; c += r.width) {
        float d[kPack<T>];
        load_arriving<false>(args, begin + c, 1, d, T{});
        const float z = load(static_cast<const T*>(args.z)[begin + c]);
        body(c, d[0], (z - mean) * rstd);
      }
    };
    Means terms{};
    for_elements([&](int64_t c, float d, float normal) {
      const float g = d * args.gamma[c];
      terms.g += g, terms.gx += g * normal;
    });
    const Means means = row_means(r, terms, shared);
    for_elements([&](int64_t c, float d, float normal) {
      float g[1] = {rstd * (d * args.gamma[c] - means.g - normal * means.gx)};
      store(static_cast<T*>(args.dz)[begin + c], g[0]);
      if (args.dropout.step != nullptr) {
        drop<1>(args.dropout, begin + c, false, g);
        store(static_cast<T*>(args.dx)[begin + c], g[0]);
      }
      sums[c] += d * normal, sums[r.size + c] += d, sums[2 * r.size + c] += g[0];
    });
  }
}

// A row of blocks for each kind of sum.
__global__ void finish_channel_sums(LayerNormGradArgs args, int64_t blocks, const float* partial) {
  const int64_t c = global_thread();
  const int kind = static_cast<int>(blockIdx.y);
  float* const to = kind == 0 ? args.dgamma : kind == 1 ? args.dbeta : args.sums;
  if (c >= args.channels || to == nullptr) return;
  constexpr int kBatch = 12;  // read before the first of them is used
  double sum = 0;
  for (int64_t first = 0; first < blocks; first += kBatch) {
    float v[kBatch];
    ASSAY_UNROLLED
    for (int i = 0; i < kBatch; ++i)
      v[i] = first + i < blocks ? partial[((first + i) * kKinds + kind) * args.channels + c] : 0.0f;
    ASSAY_UNROLLED
    for (int i = 0; i < kBatch; ++i) sum += static_cast<double>(v[i]);
  }
  to[c] = static_cast<float>(sum);
}

// As many as are busy at once: one of a processor where a thread has many elements, else two.
int64_t gradient_blocks(const Rows& r) {
  const int64_t all = blocks_of(r), most = r.size <= 8 * r.width ? 2 * kProcessors : kProcessors;
  return all < most ? all : most;
}

template <class T>
bool whole_rows(int64_t channels) {
  return channels % kPack<T> == 0;
}

template <class T, int kPacks>
void run_gradient(Stream stream, const Rows& r, const LayerNormGradArgs& args, float* partial) {
  const bool whole = whole_rows<T>(args.channels) &&
                     on_16_bytes(args.z, args.dy, args.addend, args.gamma, args.dz, args.dx);
  launch(stream, static_cast<unsigned>(gradient_blocks(r)), kThreads,
         whole ? gradient<T, kPacks, true> : gradient<T, kPacks, false>, r, args, partial);
}

}  // namespace

void layer_norm(Stream stream, Element element, const LayerNormArgs& args) {
  const Rows r = rows_of(args.rows, args.channels);
  dispatch(element, [&]<class T>(T) {
    const bool whole = whole_rows<T>(args.channels) &&
                       on_16_bytes(args.x, args.residual, args.gamma, args.beta, args.y, args.z);
    launch(stream, blocks_of(r), kThreads, normalise<T>, r, args, whole);
  });
}

size_t layer_norm_sums_bytes(int64_t rows, int64_t channels) {
  return static_cast<size_t>(gradient_blocks(rows_of(rows, channels)) * kKinds * channels) *
         sizeof(float);
}

void layer_norm_grad(Stream stream, Element element, const LayerNormGradArgs& args,
                     float* partial) {
  const Rows r = rows_of(args.rows, args.channels);
  const int64_t of_thread = ceil_div(args.channels, r.width);
  dispatch(element, [&]<class T>(T) {
    constexpr int kFew = 8 / kPack<T>;
    if (of_thread > kElements) {
      launch(stream, static_cast<unsigned>(gradient_blocks(r)), kThreads, gradient_of_wide_rows<T>,
             r, args, partial);
    } else if (of_thread <= 8) {
      run_gradient<T, kFew>(stream, r, args, partial);
    } else if (of_thread <= 24) {
      run_gradient<T, 3 * kFew>(stream, r, args, partial);
    } else {
      run_gradient<T, 4 * kFew>(stream, r, args, partial);
    }
  });
  const dim3 columns(static_cast<unsigned>(ceil_div(args.channels, kThreads)), kKinds);
  launch(stream, columns, kThreads, finish_channel_sums, args, gradient_blocks(r), partial);
}

}  // namespace assay::cuda::kernels
