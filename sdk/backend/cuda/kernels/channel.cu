// Sums over rows per channel, and affine maps with one coefficient per channel.
//
// A block of threads is `x` packs of neighbouring channels wide and `y` rows high, 256 in all. For
// sums a block takes kRowsOfThread rows per thread and leaves one f64 partial sum per channel; a
// second launch adds these in a fixed order. A thread's own sum is f32 over at most kRowsOfThread
// rows, and moments are taken around a pivot (the block's first row), so that a large common mean
// does not cancel: with x = 1000 +- 1 the variance keeps its f32 digits.
#include "sdk/backend/cuda/kernels/language.h"

namespace assay::cuda::kernels {
namespace {

constexpr int kRowsOfThread = 64;

// How a tensor [rows, channels] is cut into blocks.
struct Cut {
  int64_t rows, channels;
  int64_t rows_of_block;
  bool whole;  // every pack lies on a 16-byte boundary and is full
};

struct Blocks {
  dim3 grid, block;
};

template <class T>
Blocks blocks_of(int64_t rows, int64_t channels, int64_t rows_of_thread) {
  const int64_t packs = ceil_div(channels, kPack<T>);
  unsigned x = 1;
  while (x < 32 && x < packs) x *= 2;
  const unsigned y = kThreads / x;
  return {dim3(static_cast<unsigned>(ceil_div(packs, x)),
               static_cast<unsigned>(ceil_div(rows, y * rows_of_thread))),
          dim3(x, y)};
}

// The grid has at most 65535 rows of blocks, so very tall tensors get more rows per thread.
template <class T>
int64_t rows_of_thread(int64_t rows, int64_t channels) {
  int64_t n = kRowsOfThread;
  while (blocks_of<T>(rows, channels, n).grid.y > 32768) n *= 2;
  return n;
}

template <class T>
Cut cut_of(int64_t rows, int64_t channels, const Blocks& blocks, int64_t of_thread, bool aligned) {
  return {rows, channels, blocks.block.y * of_thread, aligned && channels % kPack<T> == 0};
}

// ---- Sums -------------------------------------------------------------------------------------
// A term reads one pack of one row and adds to kKinds sums per channel; `finish` turns a thread's
// f32 sums over `rows` rows into f64.

template <class T>
struct PlainSum {
  static constexpr int kKinds = 1;
  const T* x;
  struct State {
    float sum[kPack<T>];
  };
  __device__ void start(State& s, const Cut&, int64_t, int64_t, int) const {
    for (int i = 0; i < kPack<T>; ++i) s.sum[i] = 0;
  }
  __device__ void add(State& s, const Cut& cut, int64_t at, int64_t, int n) const {
    float v[kPack<T>];
    load_pack<kPack<T>>(x + at, n, cut.whole, v);
    for (int i = 0; i < kPack<T>; ++i) s.sum[i] += v[i];
  }
  __device__ void finish(const State& s, double, int i, double (&out)[1]) const {
    out[0] = static_cast<double>(s.sum[i]);
  }
};

template <class T>
struct Moments {
  static constexpr int kKinds = 2;
  const T* x;
  struct State {
    float pivot[kPack<T>], d[kPack<T>], q[kPack<T>];
  };
  __device__ void start(State& s, const Cut& cut, int64_t first_at, int64_t, int n) const {
    load_pack<kPack<T>>(x + first_at, n, cut.whole, s.pivot);
    for (int i = 0; i < kPack<T>; ++i) s.d[i] = s.q[i] = 0;
  }
  __device__ void add(State& s, const Cut& cut, int64_t at, int64_t, int n) const {
    float v[kPack<T>];
    load_pack<kPack<T>>(x + at, n, cut.whole, v);
    for (int i = 0; i < kPack<T>; ++i) {
      const float d = v[i] - s.pivot[i];
      s.d[i] += d;
      s.q[i] = fmaf(d, d, s.q[i]);
    }
  }
  // From sums around the pivot to sums around zero.
  __device__ void finish(const State& s, double rows, int i, double (&out)[2]) const {
    const double a = static_cast<double>(s.pivot[i]), d = static_cast<double>(s.d[i]);
    out[0] = rows * a + d;
    out[1] = static_cast<double>(s.q[i]) + a * (2.0 * d + rows * a);
  }
};

// Where the relu mask of a gradient comes from.
enum Mask { kNoMask, kFromY, kFromX };

// One pack of x and of the gradient that passed the relu.
template <class T, Mask kMask>
__device__ void load_gradient(const NormGradArgs& args, int64_t at, int64_t channel, int n,
                              bool whole, float (&x)[kPack<T>], float (&g)[kPack<T>]) {
  constexpr int N = kPack<T>;
  load_pack<N>(static_cast<const T*>(args.x) + at, n, whole, x);
  load_pack<N>(static_cast<const T*>(args.dy) + at, n, whole, g);
  if constexpr (kMask == kFromY) {
    float y[N];
    load_pack<N>(static_cast<const T*>(args.y) + at, n, whole, y);
    for (int i = 0; i < N; ++i) g[i] = y[i] <= 0.0f ? 0.0f : g[i];
  } else if constexpr (kMask == kFromX) {  // the forward's own arithmetic decides, to the bit
    for (int i = 0; i < n; ++i) {
      const float y = fmaf(x[i], args.affine.scale[channel + i], args.affine.shift[channel + i]);
      g[i] = y <= largest_zero<T>() ? 0.0f : g[i];
    }
  }
}

// Sums of g and of g * (x - mean).
template <class T, Mask kMask>
struct GradientSums {
  static constexpr int kKinds = 2;
  NormGradArgs args;
  const float* mean;
  struct State {
    float mean[kPack<T>], g[kPack<T>], gx[kPack<T>];
  };
  __device__ void start(State& s, const Cut&, int64_t, int64_t channel, int n) const {
    load_pack<kPack<T>>(mean + channel, n, false, s.mean);
    for (int i = 0; i < kPack<T>; ++i) s.g[i] = s.gx[i] = 0;
  }
  __device__ void add(State& s, const Cut& cut, int64_t at, int64_t channel, int n) const {
    float x[kPack<T>], g[kPack<T>];
    load_gradient<T, kMask>(args, at, channel, n, cut.whole, x, g);
    for (int i = 0; i < kPack<T>; ++i) {
      s.g[i] += g[i];
      s.gx[i] = fmaf(g[i], x[i] - s.mean[i], s.gx[i]);
    }
    if (args.masked != nullptr)
      store_pack<kPack<T>>(static_cast<T*>(args.masked) + at, n, cut.whole, g);
  }
  __device__ void finish(const State& s, double, int i, double (&out)[2]) const {
    out[0] = static_cast<double>(s.g[i]);
    out[1] = static_cast<double>(s.gx[i]);
  }
};

// partial[row of blocks][kind][channel]
template <class T, class Term>
__global__ void channel_sums(Term term, Cut cut, double* partial) {
  constexpr int N = kPack<T>, kKinds = Term::kKinds;
  __shared__ double shared[N][kThreads];
  const int64_t channel = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  const int64_t begin = blockIdx.y * cut.rows_of_block;
  const int64_t end = begin + cut.rows_of_block < cut.rows ? begin + cut.rows_of_block : cut.rows;
  const int64_t rest = cut.channels - channel;
  const int n = rest < N ? static_cast<int>(rest) : N;  // not positive: no channels for this thread
  typename Term::State state;
  double rows = 0;
  if (n > 0) {
    term.start(state, cut, begin * cut.channels + channel, channel, n);
    for (int64_t r = begin + threadIdx.y; r < end; r += blockDim.y, rows += 1) {
      term.add(state, cut, r * cut.channels + channel, channel, n);
    }
  }
  const int t = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  for (int kind = 0; kind < kKinds; ++kind) {
    for (int i = 0; i < N; ++i) {
      double sums[kKinds] = {};
      if (n > 0) term.finish(state, rows, i, sums);
      shared[i][t] = sums[kind];
    }
    __syncthreads();
    for (int half = static_cast<int>(blockDim.y) / 2; half > 0; half /= 2) {
      if (static_cast<int>(threadIdx.y) < half) {
        for (int i = 0; i < N; ++i) shared[i][t] += shared[i][t + half * blockDim.x];
      }
      __syncthreads();
    }
    if (threadIdx.y == 0) {
      double* out =
          partial + (static_cast<int64_t>(blockIdx.y) * kKinds + kind) * cut.channels + channel;
      for (int i = 0; i < n; ++i) out[i] = shared[i][t];
    }
    __syncthreads();
  }
}

constexpr int kFoldChannels = 8;  // of one block of fold_sums, by kThreads / kFoldChannels rows

// Adds the partial sums of every channel and calls finish(channel, totals).
template <int kKinds, class Finish>
__global__ void fold_sums(const double* partial, int64_t blocks, int64_t channels, Finish finish) {
  __shared__ double shared[kThreads];
  const int64_t channel = static_cast<int64_t>(blockIdx.x) * kFoldChannels + threadIdx.x;
  const int t = static_cast<int>(threadIdx.y) * kFoldChannels + static_cast<int>(threadIdx.x);
  double totals[kKinds];
  for (int kind = 0; kind < kKinds; ++kind) {
    double sum = 0;
    if (channel < channels) {
      for (int64_t b = threadIdx.y; b < blocks; b += blockDim.y) {
        sum += partial[(b * kKinds + kind) * channels + channel];
      }
    }
    shared[t] = sum;
    __syncthreads();
    for (int half = static_cast<int>(blockDim.y) / 2; half > 0; half /= 2) {
      if (static_cast<int>(threadIdx.y) < half) shared[t] += shared[t + half * kFoldChannels];
      __syncthreads();
    }
    totals[kind] = shared[threadIdx.x];
    __syncthreads();
  }
  if (threadIdx.y == 0 && channel < channels) finish(channel, totals);
}

template <class T, class Term, class Finish>
void sum_and_finish(Stream stream, const Term& term, int64_t rows, int64_t channels, bool aligned,
                    double* partial, const Finish& finish) {
  const int64_t of_thread = rows_of_thread<T>(rows, channels);
  const Blocks blocks = blocks_of<T>(rows, channels, of_thread);
  launch(stream, blocks.grid, blocks.block, channel_sums<T, Term>, term,
         cut_of<T>(rows, channels, blocks, of_thread, aligned), partial);
  launch(stream, dim3(static_cast<unsigned>(ceil_div(channels, kFoldChannels))),
         dim3(kFoldChannels, kThreads / kFoldChannels), fold_sums<Term::kKinds, Finish>,
         static_cast<const double*>(partial), static_cast<int64_t>(blocks.grid.y), channels,
         finish);
}

struct WriteSum {
  float* y;
  __device__ void operator()(int64_t channel, const double (&totals)[1]) const {
    y[channel] = static_cast<float>(totals[0]);
  }
};

// The one place where scale and shift are made; forward and backward must agree to the bit.
__device__ void write_affine(const NormInputs& in, float mean, float var, int64_t channel,
                             Affine affine) {
  const double deviation = sqrt(static_cast<double>(var) + static_cast<double>(in.epsilon));
  const float scale = static_cast<float>(static_cast<double>(in.gamma[channel]) / deviation);
  affine.scale[channel] = scale;
  affine.shift[channel] =
      static_cast<float>(static_cast<double>(in.beta[channel]) -
                         static_cast<double>(mean) * static_cast<double>(scale));
}

// Everything [channels].
__global__ void affine_of_given(NormInputs in, int64_t channels, Affine affine) {
  const int64_t channel = global_thread();
  if (channel < channels) write_affine(in, in.mean[channel], in.var[channel], channel, affine);
}

// The cancellation costs (mean / deviation)^2 of f64's 2^53.
struct FinishStatistics {
  NormInputs in;
  double rows;
  float *mean, *var;
  Affine affine;
  __device__ void operator()(int64_t channel, const double (&totals)[2]) const {
    const double m = totals[0] / rows;
    const double v = totals[1] / rows - m * m;
    mean[channel] = static_cast<float>(m);
    var[channel] = static_cast<float>(v < 0 ? 0 : v);  // NaN stays
    write_affine(in, mean[channel], var[channel], channel, affine);
  }
};

// dgamma, dbeta and the coefficients of dx = scale*g + b*x + c, from
// dx = scale * (g - sum g / rows - xhat * sum(g * xhat) / rows), xhat = (x - mean) / deviation.
struct FinishGradient {
  NormInputs in;
  NormGradArgs args;
  double rows;
  float *dgamma, *dbeta;
  __device__ void operator()(int64_t channel, const double (&totals)[2]) const {
    const double variance = static_cast<double>(in.var[channel]) + static_cast<double>(in.epsilon);
    dbeta[channel] = static_cast<float>(totals[0]);
    dgamma[channel] = static_cast<float>(totals[1] / sqrt(variance));
    const double scale = static_cast<double>(args.affine.scale[channel]);
    const float b = static_cast<float>(-scale * totals[1] / (variance * rows));
    args.b[channel] = b;
    args.c[channel] = static_cast<float>(
        -scale * totals[0] / rows - static_cast<double>(b) * static_cast<double>(in.mean[channel]));
  }
};

// ---- Slabs ------------------------------------------------------------------------------------

constexpr int kSlabColumns = 32, kSlabRows = 8;

// A block sums kSlabColumns channels of one slab at a time: each thread every kSlabRows-th row,
// then the rows of threads in their order.
// x [slabs, rows, channels], y [slabs, channels].
template <class T>
__global__ void slab_sums(const T* x, int64_t slabs, int64_t rows, int64_t channels, float* y) {
  __shared__ double part[kSlabRows][kSlabColumns];
  const int64_t columns = (channels + kSlabColumns - 1) / kSlabColumns;
  const int column = static_cast<int>(threadIdx.x), lane = static_cast<int>(threadIdx.y);
  for (int64_t i = blockIdx.x; i < slabs * columns; i += gridDim.x) {
    const int64_t slab = i / columns, channel = i % columns * kSlabColumns + column;
    double sum = 0;
    if (channel < channels) {
      for (int64_t r = lane; r < rows; r += kSlabRows)
        sum += static_cast<double>(load(x[(slab * rows + r) * channels + channel]));
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

// ---- Maps -------------------------------------------------------------------------------------

// Calls body(offset, channel, n) for every pack of this thread.
template <class T, class Body>
__device__ void for_packs(const Cut& cut, const Body& body) {
  const int64_t channel = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kPack<T>;
  const int64_t rest = cut.channels - channel;
  if (rest <= 0) return;
  const int n = rest < kPack<T> ? static_cast<int>(rest) : kPack<T>;
  const int64_t begin = blockIdx.y * cut.rows_of_block;
  const int64_t end = begin + cut.rows_of_block < cut.rows ? begin + cut.rows_of_block : cut.rows;
  for (int64_t r = begin + threadIdx.y; r < end; r += blockDim.y) {
    body(r * cut.channels + channel, channel, n);
  }
}

// x, residual, y [rows, channels].
template <class T, bool kRelu, bool kResidual>
__global__ void apply_affine(const T* x, Affine affine, const T* residual, T* y, Cut cut) {
  constexpr int N = kPack<T>;
  for_packs<T>(cut, [&](int64_t at, int64_t channel, int n) {
    float v[N], scale[N], shift[N];  // the tables stay in the first-level cache
    load_pack<N>(x + at, n, cut.whole, v);
    load_pack<N>(affine.scale + channel, n, cut.whole, scale);
    load_pack<N>(affine.shift + channel, n, cut.whole, shift);
    for (int i = 0; i < N; ++i) v[i] = fmaf(v[i], scale[i], shift[i]);
    if constexpr (kResidual) {
      float extra[N];
      load_pack<N>(residual + at, n, cut.whole, extra);
      for (int i = 0; i < N; ++i) v[i] += extra[i];
    }
    if constexpr (kRelu) {
      for (int i = 0; i < N; ++i) v[i] = 0.0f > v[i] ? 0.0f : v[i];
    }
    store_pack<N>(y + at, n, cut.whole, v);
  });
}

// dx [rows, channels].
template <class T, Mask kMask>
__global__ void apply_gradient(NormGradArgs args, T* dx, Cut cut) {
  constexpr int N = kPack<T>;
  for_packs<T>(cut, [&](int64_t at, int64_t channel, int n) {
    float x[N], g[N];
    load_gradient<T, kMask>(args, at, channel, n, cut.whole, x, g);
    for (int i = 0; i < n; ++i) {
      const int64_t k = channel + i;
      g[i] = fmaf(args.affine.scale[k], g[i], fmaf(args.b[k], x[i], args.c[k]));
    }
    store_pack<N>(dx + at, n, cut.whole, g);
  });
}

template <class T, class... P, class... A>
void launch_map(Stream stream, void (*kernel)(P...), int64_t rows, int64_t channels, bool aligned,
                A... arguments) {
  constexpr int64_t kRows = 16;
  int64_t of_thread = kRows;
  while (blocks_of<T>(rows, channels, of_thread).grid.y > 32768) of_thread *= 2;
  const Blocks blocks = blocks_of<T>(rows, channels, of_thread);
  launch(stream, blocks.grid, blocks.block, kernel, arguments...,
         cut_of<T>(rows, channels, blocks, of_thread, aligned));
}

// ---- Few numbers ------------------------------------------------------------------------------

// One block per filter.
__global__ void fold_filters(const float* w, NormInputs in, float* folded, float* bias,
                             int64_t size) {
  const int64_t k = blockIdx.x;
  const double scale = static_cast<double>(in.gamma[k]) /
                       sqrt(static_cast<double>(in.var[k]) + static_cast<double>(in.epsilon));
  for (int64_t i = k * size + threadIdx.x; i < (k + 1) * size; i += blockDim.x) {
    folded[i] = static_cast<float>(static_cast<double>(w[i]) * scale);
  }
  if (threadIdx.x == 0) {
    bias[k] = static_cast<float>(static_cast<double>(in.beta[k]) -
                                 static_cast<double>(in.mean[k]) * scale);
  }
}

__device__ float blend(double momentum, float old, double fresh) {
  return static_cast<float>((1 - momentum) * static_cast<double>(old) + momentum * fresh);
}

// Everything [channels] but the gate [].
__global__ void update_running(RunningArgs args, int64_t channels) {
  const int64_t k = global_thread();
  if (k >= channels || !isfinite(*args.gate)) return;
  args.running_mean[k] =
      blend(args.momentum, args.running_mean[k], static_cast<double>(args.mean[k]));
  args.running_var[k] =
      blend(args.momentum, args.running_var[k], static_cast<double>(args.var[k]) * args.unbias);
}

Mask mask_of(const NormGradArgs& args) {
  if (!args.relu) return kNoMask;
  return args.y != nullptr ? kFromY : kFromX;
}

template <class Body>
void dispatch_mask(Mask mask, const Body& body) {
  if (mask == kNoMask) return body.template operator()<kNoMask>();
  if (mask == kFromY) return body.template operator()<kFromY>();
  body.template operator()<kFromX>();
}

bool aligned(const NormGradArgs& args, const void* dx) {
  return on_16_bytes(args.x, args.dy, args.y, args.masked, dx);  // null lies on a boundary
}

}  // namespace

size_t partial_sums_bytes(Element element, int64_t rows, int64_t channels, int kinds) {
  size_t bytes = 0;
  dispatch(element, [&]<class T>(T) {
    const Blocks blocks = blocks_of<T>(rows, channels, rows_of_thread<T>(rows, channels));
    bytes = static_cast<size_t>(blocks.grid.y * kinds * channels) * sizeof(double);
  });
  return bytes;
}

void sum_rows(Stream stream, Element element, const void* x, int64_t rows, int64_t channels,
              double* partial, float* y) {
  dispatch(element, [&]<class T>(T) {
    sum_and_finish<T>(stream, PlainSum<T>{static_cast<const T*>(x)}, rows, channels, on_16_bytes(x),
                      partial, WriteSum{y});
  });
}

void sum_slabs(Stream stream, Element element, const void* x, int64_t slabs, int64_t rows,
               int64_t channels, float* y) {
  if (slabs * channels == 0) return;
  const int64_t columns = ceil_div(channels, kSlabColumns);
  dispatch(element, [&]<class T>(T) {
    launch(stream, blocks_for(slabs * columns * kThreads), dim3(kSlabColumns, kSlabRows),
           slab_sums<T>, static_cast<const T*>(x), slabs, rows, channels, y);
  });
}

void norm_affine(Stream stream, const NormInputs& in, int64_t channels, Affine affine) {
  launch(stream, blocks_for(channels), kThreads, affine_of_given, in, channels, affine);
}

void norm_statistics(Stream stream, Element element, const void* x, int64_t rows, int64_t channels,
                     double* partial, const NormInputs& in, float* mean, float* var,
                     Affine affine) {
  const FinishStatistics finish{in, static_cast<double>(rows), mean, var, affine};
  dispatch(element, [&]<class T>(T) {
    sum_and_finish<T>(stream, Moments<T>{static_cast<const T*>(x)}, rows, channels, on_16_bytes(x),
                      partial, finish);
  });
}

void norm_apply(Stream stream, Element element, const void* x, Affine affine, const void* residual,
                bool relu, void* y, int64_t rows, int64_t channels) {
  const bool on_boundary = on_16_bytes(x, y, residual, affine.scale, affine.shift);
  dispatch(element, [&]<class T>(T) {
    const auto kernel = relu ? residual ? apply_affine<T, true, true> : apply_affine<T, true, false>
                        : residual ? apply_affine<T, false, true>
                                   : apply_affine<T, false, false>;
    launch_map<T>(stream, kernel, rows, channels, on_boundary, static_cast<const T*>(x), affine,
                  static_cast<const T*>(residual), static_cast<T*>(y));
  });
}

void norm_grad_sums(Stream stream, Element element, const NormGradArgs& args, const NormInputs& in,
                    int64_t rows, int64_t channels, double* partial, float* dgamma, float* dbeta) {
  const FinishGradient finish{in, args, static_cast<double>(rows), dgamma, dbeta};
  dispatch(element, [&]<class T>(T) {
    dispatch_mask(mask_of(args), [&]<Mask kMask>() {
      sum_and_finish<T>(stream, GradientSums<T, kMask>{args, in.mean}, rows, channels,
                        aligned(args, nullptr), partial, finish);
    });
  });
}

void norm_grad_apply(Stream stream, Element element, const NormGradArgs& args, void* dx,
                     int64_t rows, int64_t channels) {
  NormGradArgs now = args;
  if (args.masked != nullptr) {
    now.dy = args.masked;
    now.relu = false;
  }
  dispatch(element, [&]<class T>(T) {
    dispatch_mask(mask_of(now), [&]<Mask kMask>() {
      launch_map<T>(stream, apply_gradient<T, kMask>, rows, channels, aligned(now, dx), now,
                    static_cast<T*>(dx));
    });
  });
}

void fold_norm(Stream stream, const float* w, const NormInputs& in, float* folded, float* bias,
               int64_t filters, int64_t size) {
  launch(stream, dim3(static_cast<unsigned>(filters)), dim3(kThreads), fold_filters, w, in, folded,
         bias, size);
}

void running_statistics(Stream stream, const RunningArgs& args, int64_t channels) {
  launch(stream, blocks_for(channels), kThreads, update_running, args, channels);
}

}  // namespace assay::cuda::kernels
