// Batch normalisation: statistics, its affine map per channel, gradients, and few numbers of both.
#include <type_traits>

#include "sdk/backend/cuda/kernels/channel.h"
#include "sdk/backend/cuda/kernels/epilogue.h"
#include "sdk/backend/cuda/kernels/norm_channels.h"

namespace assay::cuda::kernels {
namespace {

// ---- Sums -------------------------------------------------------------------------------------

template <class T>
struct Moments {
  static constexpr int kKinds = 2, kBatch = 4, kBlocks = 3;
  using Row = Pack<T>;
  const T* x;
  struct State {
    float pivot[kPack<T>], d[kPack<T>], q[kPack<T>];
  };
  template <bool kWhole>
  __device__ void start(State& s, int64_t first_at, int64_t, int n) const {
    unpack(read<kWhole>(first_at, n), s.pivot);
    for (int i = 0; i < kPack<T>; ++i) s.d[i] = s.q[i] = 0;
  }
  template <bool kWhole>
  __device__ Row read(int64_t at, int n) const {
    return read_pack<kWhole>(x + at, n);
  }
  template <bool kWhole>
  __device__ void add(State& s, const Row& row, int64_t, int) const {
    float v[kPack<T>];
    unpack(row, v);
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

// What the gradient is multiplied by: nothing, the mask of a relu, from y, from x or as it was
// kept, or the derivative of swish.
enum Mask { kNoMask, kFromY, kFromX, kSwishFromX, kKept };
template <Mask kMask>
constexpr bool kRecomputes = kMask == kFromX || kMask == kSwishFromX;

// What the forward is computed again from, per channel: nothing unless that is asked for. For the
// sums each thread makes it, which costs them less than a launch; the rest reads what
// the last block of sums has written.
template <class T, bool kFilled>
struct MaskTable {};
template <class T>
struct MaskTable<T, true> {
  float scale[kPack<T>], shift[kPack<T>];
};
template <class T, Mask kMask>
__device__ MaskTable<T, kRecomputes<kMask>> mask_table(const NormGradArgs& args, int64_t channel,
                                                       int n, bool whole) {
  MaskTable<T, kRecomputes<kMask>> table;
  if constexpr (kRecomputes<kMask>) {
    load_pack<kPack<T>>(args.affine.scale + channel, n, whole, table.scale);
    load_pack<kPack<T>>(args.affine.shift + channel, n, whole, table.shift);
  }
  return table;
}

// A row of what a gradient is made from: with kSum, of two gradients.
struct Nothing {};
template <class T, Mask kMask, bool kSum>
struct GradientRow {
  Pack<T> x, dy;
  std::conditional_t<kMask == kFromY, Pack<T>, Nothing> y;
  std::conditional_t<kMask == kKept, uint8_t, Nothing> mask;
  std::conditional_t<kSum, Pack<T>, Nothing> addend;
};
template <class T, Mask kMask, bool kSum, bool kWhole>
__device__ GradientRow<T, kMask, kSum> read_gradient(const NormGradArgs& args, int64_t at, int n) {
  GradientRow<T, kMask, kSum> row;
  row.x = read_pack<kWhole>(static_cast<const T*>(args.x) + at, n);
  row.dy = read_pack<kWhole>(static_cast<const T*>(args.dy) + at, n);
  if constexpr (kMask == kFromY) row.y = read_pack<kWhole>(static_cast<const T*>(args.y) + at, n);
  if constexpr (kMask == kKept) row.mask = args.mask[at / kPack<T>];
  if constexpr (kSum) row.addend = read_pack<kWhole>(static_cast<const T*>(args.addend) + at, n);
  return row;
}

// One pack of x and of the gradient that passed the activation.
template <class T, Mask kMask, bool kSum>
__device__ void unpack_gradient(const GradientRow<T, kMask, kSum>& row,
                                const MaskTable<T, kRecomputes<kMask>>& table, float (&x)[kPack<T>],
                                float (&g)[kPack<T>]) {
  unpack(row.x, x);
  unpack(row.dy, g);
  if constexpr (kSum) {  // rounded as if it had been stored
    float more[kPack<T>];
    unpack(row.addend, more);
    for (int i = 0; i < kPack<T>; ++i) g[i] = as_stored<T>(g[i] + more[i]);
  }
  if constexpr (kMask == kKept) {
    for (int i = 0; i < kPack<T>; ++i) g[i] = (row.mask >> i & 1) != 0 ? g[i] : 0.0f;
  } else if constexpr (kMask == kFromY) {
    float y[kPack<T>];
    unpack(row.y, y);
    for (int i = 0; i < kPack<T>; ++i) g[i] = y[i] <= 0.0f ? 0.0f : g[i];
  } else if constexpr (kMask == kFromX) {  // the forward's own arithmetic decides, to the bit
    for (int i = 0; i < kPack<T>; ++i) {
      const float y = fmaf(x[i], table.scale[i], table.shift[i]);
      g[i] = y <= largest_zero<T>() ? 0.0f : g[i];
    }
  } else if constexpr (kMask == kSwishFromX) {
    for (int i = 0; i < kPack<T>; ++i) {
      const float v = fmaf(x[i], table.scale[i], table.shift[i]), s = sigmoid(v);
      g[i] *= s * fmaf(v, 1.0f - s, 1.0f);
    }
  }
}

// Sums of g and of g * (x - mean).
template <class T, Mask kMask, bool kSum>
struct GradientSums {
  static constexpr int kKinds = 2, kBatch = 2, kBlocks = kRecomputes<kMask> ? 2 : 3;
  using Row = GradientRow<T, kMask, kSum>;
  NormGradArgs args;
  NormInputs in;
  struct State {
    MaskTable<T, kRecomputes<kMask>> table;
    float mean[kPack<T>], g[kPack<T>], gx[kPack<T>];
  };
  template <bool kWhole>
  __device__ void start(State& s, int64_t, int64_t channel, int n) const {
    if constexpr (kRecomputes<kMask>) {
      for (int i = 0; i < kPack<T>; ++i) {
        const int64_t k = i < n ? channel + i : channel;
        const ScaleAndShift made = affine_of(in, in.mean[k], in.var[k], k);
        s.table.scale[i] = made.scale, s.table.shift[i] = made.shift;
      }
    }
    load_pack<kPack<T>>(in.mean + channel, n, kWhole, s.mean);
    for (int i = 0; i < kPack<T>; ++i) s.g[i] = s.gx[i] = 0;
  }
  template <bool kWhole>
  __device__ Row read(int64_t at, int n) const {
    return read_gradient<T, kMask, kSum, kWhole>(args, at, n);
  }
  template <bool kWhole>
  __device__ void add(State& s, const Row& row, int64_t at, int n) const {
    float x[kPack<T>], g[kPack<T>];
    unpack_gradient(row, s.table, x, g);
    for (int i = 0; i < kPack<T>; ++i) {
      s.g[i] += g[i];
      s.gx[i] = fmaf(g[i], x[i] - s.mean[i], s.gx[i]);
    }
    if (args.masked != nullptr)
      store_pack<kPack<T>>(static_cast<T*>(args.masked) + at, n, kWhole, g);
  }
  __device__ void finish(const State& s, double, int i, double (&out)[2]) const {
    out[0] = static_cast<double>(s.g[i]);
    out[1] = static_cast<double>(s.gx[i]);
  }
};

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

struct WriteSums {
  float* sums;
  int64_t channels;
  __device__ void operator()(int64_t channel, const double (&totals)[2]) const {
    for (int kind = 0; kind < 2; ++kind)
      sums[kind * channels + channel] = static_cast<float>(totals[kind]);
  }
};

__global__ void finish_of_sums(const float* sums, int64_t channels, FinishStatistics finish) {
  const int64_t channel = global_thread();
  if (channel >= channels) return;
  const double totals[2] = {static_cast<double>(sums[channel]),
                            static_cast<double>(sums[channels + channel])};
  finish(channel, totals);
}

// ---- Maps -------------------------------------------------------------------------------------

enum Residual { kNoResidual, kPlainResidual, kNormalisedResidual };

// x, residual, y [rows, channels], mask [rows, packs of channels].
template <class T, ActivationKind kAct, Residual kResidual, bool kKeepsMask>
__global__ void apply_affine(const T* x, Affine affine, NormResidual residual, T* y, uint8_t* mask,
                             Cut cut) {
  constexpr int N = kPack<T>;
  const T* const added = static_cast<const T*>(residual.x);
  struct Row {
    Pack<T> x, residual;
  };
  for_channels<T>(cut, [&]<bool kWhole>(int64_t channel, int n) {
    float scale[N], shift[N];
    load_pack<N>(affine.scale + channel, n, kWhole, scale);
    load_pack<N>(affine.shift + channel, n, kWhole, shift);
    [[maybe_unused]] float own_scale[N], own_shift[N];
    if constexpr (kResidual == kNormalisedResidual) {
      load_pack<N>(residual.affine.scale + channel, n, kWhole, own_scale);
      load_pack<N>(residual.affine.shift + channel, n, kWhole, own_shift);
    }
    const auto read = [&](int64_t at) {
      Row row;
      row.x = read_pack<kWhole>(x + at, n);
      if constexpr (kResidual != kNoResidual) row.residual = read_pack<kWhole>(added + at, n);
      return row;
    };
    constexpr int kBatch = !kWhole ? 1 : kResidual != kNoResidual ? 2 : 4;
    for_rows<kBatch>(cut, channel, read, [&](const Row& row, int64_t at) {
      float v[N];
      unpack(row.x, v);
      for (int i = 0; i < N; ++i) v[i] = fmaf(v[i], scale[i], shift[i]);
      if constexpr (kResidual != kNoResidual) {
        float extra[N];
        unpack(row.residual, extra);
        if constexpr (kResidual == kNormalisedResidual) {
          for (int i = 0; i < N; ++i) extra[i] = fmaf(extra[i], own_scale[i], own_shift[i]);
        }
        for (int i = 0; i < N; ++i) v[i] += extra[i];
      }
      if constexpr (kAct == ActivationKind::kRelu) {
        for (int i = 0; i < N; ++i) v[i] = 0.0f > v[i] ? 0.0f : v[i];
      } else if constexpr (kAct == ActivationKind::kSwish) {
        for (int i = 0; i < N; ++i) v[i] *= sigmoid(v[i]);
      }
      if constexpr (kKeepsMask) {  // as if y had been read
        unsigned bits = 0;
        for (int i = 0; i < N; ++i) bits |= (v[i] <= largest_zero<T>() ? 0u : 1u) << i;
        mask[at / N] = static_cast<uint8_t>(bits);
      }
      store_pack<N>(y + at, n, kWhole, v);
    });
  });
}

// dx [rows, channels]. What swish takes does not fit the registers of three blocks.
template <class T, Mask kMask>
__global__ void __launch_bounds__(kThreads, kMask == kSwishFromX ? 2 : 3)
    apply_gradient(NormGradArgs args, T* dx, Cut cut) {
  constexpr int N = kPack<T>;
  for_channels<T>(cut, [&]<bool kWhole>(int64_t channel, int n) {
    const auto table = mask_table<T, kMask>(args, channel, n, kWhole);
    float scale[N], b[N], c[N];
    load_pack<N>(args.affine.scale + channel, n, kWhole, scale);
    load_pack<N>(args.b + channel, n, kWhole, b);
    load_pack<N>(args.c + channel, n, kWhole, c);
    for_rows<kWhole ? 2 : 1>(
        cut, channel,
        [&](int64_t at) { return read_gradient<T, kMask, false, kWhole>(args, at, n); },
        [&](const GradientRow<T, kMask, false>& row, int64_t at) {
          float x[N], g[N];
          unpack_gradient(row, table, x, g);
          for (int i = 0; i < N; ++i) g[i] = fmaf(scale[i], g[i], fmaf(b[i], x[i], c[i]));
          store_pack<N>(dx + at, n, kWhole, g);
        });
  });
}

__device__ float rstd_of(float var, float epsilon) { return 1.0f / sqrtf(var + epsilon); }

// dx = scale * g + b * x + c, as of FinishGradient.
template <int N>
struct DxTable {
  float scale[N], b[N], c[N];
};

// Of this thread's channels: to make it costs less than a launch. The first block copies the sums.
template <bool kWhole, int N>
__device__ DxTable<N> dx_table(const SummedNorm& norm, const Cut& cut, int64_t channel, int n) {
  DxTable<N> table;
  float var[N], mean[N], dgamma[N], dbeta[N];
  load_pack<N>(norm.in.mean + channel, n, kWhole, mean);
  load_pack<N>(norm.in.var + channel, n, kWhole, var);
  load_pack<N>(norm.sums + channel, n, kWhole, dgamma);
  load_pack<N>(norm.sums + cut.channels + channel, n, kWhole, dbeta);
  const bool copies = blockIdx.y == 0 && threadIdx.y == 0;
  for (int i = 0; i < n && copies; ++i) {
    norm.dgamma[channel + i] = dgamma[i];
    norm.dbeta[channel + i] = dbeta[i];
  }
  const auto rows = static_cast<float>(cut.rows);
  for (int i = 0; i < N; ++i) {
    const float rstd = rstd_of(var[i], norm.in.epsilon);
    table.scale[i] = norm.in.gamma[i < n ? channel + i : channel] * rstd;
    table.b[i] = -table.scale[i] * rstd * dgamma[i] / rows;
    table.c[i] = -table.scale[i] * dbeta[i] / rows - table.b[i] * mean[i];
  }
  return table;
}

// x, g, dx [rows, channels].
template <class T, int kNorms>
__global__ void __launch_bounds__(kThreads, 4 - kNorms)
    apply_summed_gradient(const T* g, SummedNorm first, SummedNorm second, Cut cut) {
  constexpr int N = kPack<T>;
  struct Row {
    Pack<T> g, x[kNorms];
  };
  for_channels<T>(cut, [&]<bool kWhole>(int64_t channel, int n) {
    DxTable<N> tables[kNorms];
    for (int k = 0; k < kNorms; ++k)
      tables[k] = dx_table<kWhole, N>(k == 0 ? first : second, cut, channel, n);
    for_rows<kWhole ? 2 : 1>(
        cut, channel,
        [&](int64_t at) {
          Row row;
          row.g = read_pack<kWhole>(g + at, n);
          for (int k = 0; k < kNorms; ++k) {
            const SummedNorm& norm = k == 0 ? first : second;
            row.x[k] = read_pack<kWhole>(static_cast<const T*>(norm.x) + at, n);
          }
          return row;
        },
        [&](const Row& row, int64_t at) {
          float gradient[N], x[N];
          unpack(row.g, gradient);
          for (int k = 0; k < kNorms; ++k) {
            const SummedNorm& norm = k == 0 ? first : second;
            const DxTable<N>& t = tables[k];
            unpack(row.x[k], x);
            for (int i = 0; i < N; ++i)
              x[i] = fmaf(t.scale[i], gradient[i], fmaf(t.b[i], x[i], t.c[i]));
            store_pack<N>(static_cast<T*>(norm.dx) + at, n, kWhole, x);
          }
        });
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

__global__ void rstd_of_given(RstdArgs args, int64_t channels, float* rstd) {
  const int64_t i = global_thread();
  if (i >= args.norms * channels) return;
  rstd[i] = rstd_of(i < channels ? args.var[0][i] : args.var[1][i - channels], args.epsilon);
  if (i < channels) args.less[i] = args.beta[i] - 0x1p-25f;
}

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

__global__ void update_running(RunningArgs args) {
  const int block = static_cast<int>(blockIdx.x);
  int i = 0;
  while (i + 1 < args.count && args.norms[i + 1].first_block <= block) ++i;
  const RunningArgs::Norm& norm = args.norms[i];
  const int k = (block - norm.first_block) * kThreads + static_cast<int>(threadIdx.x);
  if (k >= norm.channels || !isfinite(*args.gate)) return;
  if (!isfinite(norm.mean[k]) || !isfinite(norm.var[k])) return;
  norm.running_mean[k] =
      blend(args.momentum, norm.running_mean[k], static_cast<double>(norm.mean[k]));
  norm.running_var[k] =
      blend(args.momentum, norm.running_var[k], static_cast<double>(norm.var[k]) * args.unbias);
}

Mask mask_of(const NormGradArgs& args) {
  if (args.activation == ActivationKind::kNone) return kNoMask;
  if (args.activation == ActivationKind::kSwish) return kSwishFromX;
  if (args.mask != nullptr) return kKept;
  return args.y != nullptr ? kFromY : kFromX;
}

template <class Body>
void dispatch_mask(Mask mask, const Body& body) {
  if (mask == kNoMask) return body.template operator()<kNoMask>();
  if (mask == kKept) return body.template operator()<kKept>();
  if (mask == kFromY) return body.template operator()<kFromY>();
  if (mask == kSwishFromX) return body.template operator()<kSwishFromX>();
  body.template operator()<kFromX>();
}

// Null lies on a boundary.
bool aligned(const NormGradArgs& args, const void* more) {
  return on_16_bytes(args.x, args.dy, args.addend, args.y, args.masked, args.affine.scale,
                     args.affine.shift, args.b, args.c, more);
}

}  // namespace

void norm_affine(Stream stream, const NormInputs& in, int64_t channels, Affine affine) {
  launch(stream, blocks_for(channels), kThreads, affine_of_given, in, channels, affine);
}

void norm_statistics(Stream stream, Element element, const void* x, int64_t rows, int64_t channels,
                     PartialSums to, const NormInputs& in, float* mean, float* var, Affine affine) {
  const FinishStatistics finish{in, static_cast<double>(rows), mean, var, affine};
  dispatch(element, [&]<class T>(T) {
    sum_and_finish<T>(stream, Moments<T>{static_cast<const T*>(x)}, rows, channels, on_16_bytes(x),
                      to, finish);
  });
}

void norm_sums(Stream stream, const void* x, int64_t rows, int64_t channels, PartialSums to,
               float* sums) {
  sum_and_finish<F16>(stream, Moments<F16>{static_cast<const F16*>(x)}, rows, channels,
                      on_16_bytes(x), to, WriteSums{sums, channels});
}

void norm_finish(Stream stream, const float* sums, int64_t rows, int64_t channels,
                 const NormInputs& in, float* mean, float* var, Affine affine) {
  const FinishStatistics finish{in, static_cast<double>(rows), mean, var, affine};
  launch(stream, blocks_for(channels), kThreads, finish_of_sums, sums, channels, finish);
}

void norm_apply(Stream stream, Element element, const void* x, Affine affine,
                const NormResidual& residual, ActivationKind activation, void* y, uint8_t* mask,
                int64_t rows, int64_t channels) {
  const bool on_boundary = on_16_bytes(x, y, residual.x, affine.scale, affine.shift,
                                       residual.affine.scale, residual.affine.shift);
  const auto apply_to = [&]<class T, ActivationKind kAct, Residual kResidual, bool kKeepsMask>(T) {
    launch_map<T>(stream, apply_affine<T, kAct, kResidual, kKeepsMask>, rows, channels, on_boundary,
                  static_cast<const T*>(x), affine, residual, static_cast<T*>(y), mask);
  };
  const auto apply = [&]<ActivationKind kAct, Residual kResidual, bool kKeepsMask>() {
    dispatch(element, [&]<class T>(T t) {
      apply_to.template operator()<T, kAct, kResidual, kKeepsMask>(t);
    });
  };
  using enum ActivationKind;
  if (residual.affine.scale != nullptr) {
    constexpr Residual kHow = kNormalisedResidual;
    if (mask != nullptr) return apply_to.template operator()<F16, kRelu, kHow, true>({});
    if (activation == kRelu) return apply_to.template operator()<F16, kRelu, kHow, false>({});
    return apply_to.template operator()<F16, kNone, kHow, false>({});
  }
  const auto apply_plain = [&]<ActivationKind kAct>() {
    residual.x != nullptr ? apply.template operator()<kAct, kPlainResidual, false>()
                          : apply.template operator()<kAct, kNoResidual, false>();
  };
  if (mask != nullptr) return apply.template operator()<kRelu, kPlainResidual, true>();
  if (activation == kRelu) return apply_plain.template operator()<kRelu>();
  if (activation == kSwish) return apply_plain.template operator()<kSwish>();
  apply_plain.template operator()<kNone>();
}

void norm_grad_sums(Stream stream, Element element, const NormGradArgs& args, const NormInputs& in,
                    int64_t rows, int64_t summed, int64_t channels, PartialSums to, float* dgamma,
                    float* dbeta) {
  const FinishGradient finish{in, args, static_cast<double>(rows), dgamma, dbeta};
  dispatch(element, [&]<class T>(T) {
    dispatch_mask(mask_of(args), [&]<Mask kMask>() {
      const auto sum = [&](const auto& term) {
        sum_and_finish<T>(stream, term, summed, channels, aligned(args, in.mean), to, finish);
      };
      if constexpr (!kRecomputes<kMask>) {
        if (args.addend != nullptr) return sum(GradientSums<T, kMask, true>{args, in});
      }
      sum(GradientSums<T, kMask, false>{args, in});
    });
  });
}

void norm_grad_apply(Stream stream, Element element, const NormGradArgs& args, void* dx,
                     int64_t rows, int64_t channels) {
  NormGradArgs now = args;
  if (args.masked != nullptr) {
    now.dy = args.masked;
    now.activation = ActivationKind::kNone;
  }
  dispatch(element, [&]<class T>(T) {
    dispatch_mask(mask_of(now), [&]<Mask kMask>() {
      if constexpr (kMask != kFromY && kMask != kKept) {  // the sums have masked those
        launch_map<T>(stream, apply_gradient<T, kMask>, rows, channels, aligned(now, dx), now,
                      static_cast<T*>(dx));
      }
    });
  });
}

void norm_rstd(Stream stream, const RstdArgs& args, int64_t channels, float* rstd) {
  launch(stream, blocks_for(args.norms * channels), kThreads, rstd_of_given, args, channels, rstd);
}

void norm_grad_apply_summed(Stream stream, const void* g, const SummedNorm& first,
                            const SummedNorm& second, int64_t rows, int64_t channels) {
  const auto on_boundary = [](const SummedNorm& n) {
    return on_16_bytes(n.x, n.sums, n.in.mean, n.in.var, n.dx);
  };
  launch_map<F16>(
      stream, second.x == nullptr ? apply_summed_gradient<F16, 1> : apply_summed_gradient<F16, 2>,
      rows, channels, on_16_bytes(g) && on_boundary(first) && on_boundary(second),
      static_cast<const F16*>(g), first, second);
}

void fold_norm(Stream stream, const float* w, const NormInputs& in, float* folded, float* bias,
               int64_t filters, int64_t size) {
  launch(stream, dim3(static_cast<unsigned>(filters)), dim3(kThreads), fold_filters, w, in, folded,
         bias, size);
}

bool RunningArgs::append(Norm norm) {
  if (count == kMostNorms) return false;
  norm.first_block = blocks;
  blocks += static_cast<int32_t>(ceil_div(norm.channels, kThreads));
  norms[count++] = norm;
  return true;
}

void running_statistics(Stream stream, const RunningArgs& args) {
  launch(stream, static_cast<unsigned>(args.blocks), kThreads, update_running, args);
}

}  // namespace assay::cuda::kernels
