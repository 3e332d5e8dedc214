// Convolution by its definition, for the shapes that cuDNN refuses. Sums are f32 in a fixed order.
// x and dx [n, h, w, c], y and dy [n, p, q, k], w and dw [k, r, s, c / groups], dense.
#include "sdk/backend/cuda/kernels/epilogue.h"

namespace assay::cuda::kernels {
namespace {

__device__ int64_t channels_of_group(const ConvShape& s) { return s.c / s.groups; }
__device__ int64_t filters_of_group(const ConvShape& s) { return s.k / s.groups; }

// The input row (axis 0) or column (1) that output `out` reads through tap `tap`; may be outside.
__device__ int64_t input_of(const ConvShape& s, int axis, int64_t out, int64_t tap) {
  return out * s.stride[axis] - s.pad[axis] + tap * s.dilation[axis];
}

// One thread per output element.
template <class T, class Out>
__global__ void forward(ConvShape s, const T* x, const T* w, Out* y) {
  const int64_t channels = channels_of_group(s);
  for (int64_t i = global_thread(); i < s.n * s.p * s.q * s.k; i += total_threads()) {
    const int64_t k = i % s.k, q = i / s.k % s.q, p = i / (s.k * s.q) % s.p,
                  n = i / (s.k * s.q * s.p);
    const int64_t first = k / filters_of_group(s) * channels;
    float sum = 0;
    for (int64_t r = 0; r < s.r; ++r) {
      const int64_t h = input_of(s, 0, p, r);
      for (int64_t t = 0; t < s.s; ++t) {
        const int64_t column = input_of(s, 1, q, t);
        if (h < 0 || h >= s.h || column < 0 || column >= s.w) continue;
        const T* pixel = x + ((n * s.h + h) * s.w + column) * s.c + first;
        const T* weights = w + ((k * s.r + r) * s.s + t) * channels;
        for (int64_t c = 0; c < channels; ++c) sum = fmaf(load(pixel[c]), load(weights[c]), sum);
      }
    }
    store(y[i], sum);
  }
}

constexpr int64_t kFewTaps = 32, kFewWeights = 8192;  // 32 KB of shared memory

// One thread per pixel and pack of filters. The weights stand in shared memory such that the
// threads of a pixel read neighbours: [tap][filter of the pack][pack].
template <class T>
__global__ void forward_few_taps(ConvShape s, const T* x, const T* w, EpilogueArgs args,
                                 bool whole) {
  constexpr int N = kPack<T>;
  __shared__ float weights[kFewWeights];
  const int64_t taps = s.r * s.s * s.c, packs = (s.k + N - 1) / N;
  for (int64_t i = threadIdx.x; i < taps * packs * N; i += blockDim.x) {
    const int64_t pack = i % packs, k = pack * N + i / packs % N, tap = i / (packs * N);
    weights[i] = k < s.k ? load(w[k * taps + tap]) : 0.0f;
  }
  __syncthreads();
  for (int64_t i = global_thread(); i < args.rows * packs; i += total_threads()) {
    const int64_t pack = i % packs, pixel = i / packs;
    const int64_t q = pixel % s.q, p = pixel / s.q % s.p, n = pixel / (s.q * s.p);
    float v[N];
    for (int k = 0; k < N; ++k) v[k] = 0;
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t c = tap % s.c, h = input_of(s, 0, p, tap / (s.c * s.s)),
                    column = input_of(s, 1, q, tap / s.c % s.s);
      if (h < 0 || h >= s.h || column < 0 || column >= s.w) continue;
      const float value = load(x[((n * s.h + h) * s.w + column) * s.c + c]);
      for (int k = 0; k < N; ++k) v[k] = fmaf(value, weights[(tap * N + k) * packs + pack], v[k]);
    }
    const int64_t rest = s.k - pack * N;
    finish<T>(args, pixel, pack * N, rest < N ? static_cast<int>(rest) : N, whole, v);
  }
}

// The output that reads input `in` through tap `tap`, or -1.
__device__ int64_t output_of(const ConvShape& s, int axis, int64_t in, int64_t tap,
                             int64_t outputs) {
  const int64_t distance = in + s.pad[axis] - tap * s.dilation[axis];
  if (distance < 0 || distance % s.stride[axis] != 0) return -1;
  const int64_t out = distance / s.stride[axis];
  return out < outputs ? out : -1;
}

// One thread per element of dx.
template <class T, class Out>
__global__ void grad_data(ConvShape s, const T* dy, const T* w, Out* dx) {
  const int64_t channels = channels_of_group(s), filters = filters_of_group(s);
  for (int64_t i = global_thread(); i < s.n * s.h * s.w * s.c; i += total_threads()) {
    const int64_t c = i % s.c, column = i / s.c % s.w, h = i / (s.c * s.w) % s.h,
                  n = i / (s.c * s.w * s.h);
    const int64_t first = c / channels * filters;
    float sum = 0;
    for (int64_t r = 0; r < s.r; ++r) {
      const int64_t p = output_of(s, 0, h, r, s.p);
      for (int64_t t = 0; t < s.s; ++t) {
        const int64_t q = output_of(s, 1, column, t, s.q);
        if (p < 0 || q < 0) continue;
        const T* gradient = dy + ((n * s.p + p) * s.q + q) * s.k;
        for (int64_t k = first; k < first + filters; ++k) {
          const T& weight = w[((k * s.r + r) * s.s + t) * channels + c % channels];
          sum = fmaf(load(gradient[k]), load(weight), sum);
        }
      }
    }
    store(dx[i], sum);
  }
}

// One block per element of dw: its threads share the output pixels; each adds up its own in f32,
// and the block adds the threads' sums in f64.
template <class T, class Out>
__global__ void grad_weight(ConvShape s, const T* x, const T* dy, Out* dw) {
  __shared__ double shared[kThreads];
  const int64_t channels = channels_of_group(s);
  const int64_t elements = s.k * s.r * s.s * channels, pixels = s.n * s.p * s.q;
  for (int64_t i = blockIdx.x; i < elements; i += gridDim.x) {
    const int64_t c = i % channels, t = i / channels % s.s, r = i / (channels * s.s) % s.r,
                  k = i / (channels * s.s * s.r);
    const int64_t channel = k / filters_of_group(s) * channels + c;
    float sum = 0;
    for (int64_t pixel = threadIdx.x; pixel < pixels; pixel += blockDim.x) {
      const int64_t q = pixel % s.q, p = pixel / s.q % s.p, n = pixel / (s.q * s.p);
      const int64_t h = input_of(s, 0, p, r), column = input_of(s, 1, q, t);
      if (h < 0 || h >= s.h || column < 0 || column >= s.w) continue;
      sum = fmaf(load(x[((n * s.h + h) * s.w + column) * s.c + channel]), load(dy[pixel * s.k + k]),
                 sum);
    }
    const double total = block_sum(static_cast<double>(sum), shared);
    if (threadIdx.x == 0) store(dw[i], static_cast<float>(total));
  }
}

}  // namespace

bool has_few_taps(const ConvShape& s) {
  const int64_t taps = s.r * s.s * s.c, filters = ceil_div(s.k, kPack<Bf16>) * kPack<Bf16>;
  return s.groups == 1 && taps <= kFewTaps && taps * filters <= kFewWeights;
}

void conv_forward_few_taps(Stream stream, Element element, const ConvShape& s, const void* x,
                           const void* w, const EpilogueArgs& args) {
  dispatch(element, [&]<class T>(T) {
    launch(stream, blocks_for(args.rows * ceil_div(s.k, kPack<T>)), kThreads, forward_few_taps<T>,
           s, static_cast<const T*>(x), static_cast<const T*>(w), args, whole_rows<kPack<T>>(args));
  });
}

void conv_forward(Stream stream, Element element, Element out, const ConvShape& s, const void* x,
                  const void* w, void* y) {
  dispatch(element, [&]<class T>(T) {
    dispatch(out, [&]<class Out>(Out) {
      launch(stream, blocks_for(s.n * s.p * s.q * s.k), kThreads, forward<T, Out>, s,
             static_cast<const T*>(x), static_cast<const T*>(w), static_cast<Out*>(y));
    });
  });
}

void conv_grad_data(Stream stream, Element element, Element out, const ConvShape& s, const void* dy,
                    const void* w, void* dx) {
  dispatch(element, [&]<class T>(T) {
    dispatch(out, [&]<class Out>(Out) {
      launch(stream, blocks_for(s.n * s.h * s.w * s.c), kThreads, grad_data<T, Out>, s,
             static_cast<const T*>(dy), static_cast<const T*>(w), static_cast<Out*>(dx));
    });
  });
}

void conv_grad_weight(Stream stream, Element element, Element out, const ConvShape& s,
                      const void* x, const void* dy, void* dw) {
  const int64_t elements = s.k * s.r * s.s * (s.c / s.groups);
  const auto blocks = static_cast<unsigned>(elements < (1 << 20) ? elements : 1 << 20);
  dispatch(element, [&]<class T>(T) {
    dispatch(out, [&]<class Out>(Out) {
      launch(stream, blocks, kThreads, grad_weight<T, Out>, s, static_cast<const T*>(x),
             static_cast<const T*>(dy), static_cast<Out*>(dw));
    });
  });
}

}  // namespace assay::cuda::kernels
