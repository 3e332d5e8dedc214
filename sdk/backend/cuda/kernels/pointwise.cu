// The steps of Pointwise: each thread takes packs of elements through all of them. Which function a
// step has and where its operands stand is the same for all threads, so that no choice diverges.
#include "sdk/backend/cuda/kernels/epilogue.h"

namespace assay::cuda::kernels {
namespace {

constexpr int N = 8;  // elements of a pack: 16 bytes of bf16, 32 of f32

// Where element i of y stands in an input that is not dense like it. A division of 64 bits is a
// call.
template <class Int>
__device__ inline int64_t place_by(const PointwiseInput& input, Int i) {
  int64_t place = 0;
  ASSAY_ROLLED
  for (int axis = 0; axis < input.axes; ++axis) {
    const Int size = static_cast<Int>(input.size[axis]), rest = i / size;
    place += static_cast<int64_t>(i - rest * size) * input.stride[axis];
    i = rest;
  }
  return place;
}
__device__ inline int64_t place_of(const PointwiseInput& input, int64_t i, int64_t n) {
  return n <= INT32_MAX ? place_by(input, static_cast<uint32_t>(i)) : place_by(input, i);
}

__device__ inline void places_of(const PointwiseInput& input, int64_t begin, int64_t all,
                                 int64_t (&place)[N]) {
  int64_t inner = begin % input.size[0];
  place[0] = place_of(input, begin, all);
  for (int k = 1; k < N; ++k) {
    const bool turns = ++inner == input.size[0];
    inner = turns ? 0 : inner;
    place[k] = turns ? place_of(input, begin + k, all) : place[k - 1] + input.stride[0];
  }
}

template <class T>
__device__ inline void gather(const void* x, const int64_t (&place)[N], int n, float (&v)[N]) {
  for (int k = 0; k < N; ++k) v[k] = k < n ? load(static_cast<const T*>(x)[place[k]]) : 0.0f;
}
template <class T>
__device__ inline void load_dense(const void* x, int64_t begin, int n, bool whole, float (&v)[N]) {
  load_pack<N>(static_cast<const T*>(x) + begin, n, whole, v);
}
// Of elements that lie together.
__device__ inline void load_together(const PointwiseInput& input, int64_t begin, int n, bool whole,
                                     float (&v)[N]) {
  if (input.element == Element::kF32) return load_dense<float>(input.data, begin, n, whole, v);
  if (input.element == Element::kBf16) return load_dense<Bf16>(input.data, begin, n, whole, v);
  load_dense<F16>(input.data, begin, n, whole, v);
}

__device__ inline void load_input(const PointwiseInput& input, int64_t begin, int64_t all, int n,
                                  bool whole, float (&v)[N]) {
  // Never of integers:
  if (input.axes == 0) return load_together(input, begin, n, whole, v);
  if (input.has_packs) return load_together(input, place_of(input, begin, all), n, whole, v);
  int64_t place[N];
  places_of(input, begin, all, place);
  if (input.is_integer) {
    const auto* x = static_cast<const int32_t*>(input.data);
    for (int k = 0; k < N; ++k) v[k] = k < n ? static_cast<float>(x[place[k]]) : 0.0f;
    return;
  }
  if (input.element == Element::kF32) return gather<float>(input.data, place, n, v);
  if (input.element == Element::kBf16) return gather<Bf16>(input.data, place, n, v);
  gather<F16>(input.data, place, n, v);
}

template <class T>
__device__ inline float rounded(float v) {
  T narrow;
  store(narrow, v);
  return load(narrow);
}

// The function is chosen once for a pack: all threads choose alike.
template <class F>
__device__ inline void map(const float (&a)[N], float (&y)[N], F f) {
  for (int k = 0; k < N; ++k) y[k] = f(a[k]);
}
template <class F>
__device__ inline void map2(const float (&a)[N], const float (&b)[N], float (&y)[N], F f) {
  for (int k = 0; k < N; ++k) y[k] = f(a[k], b[k]);
}

__device__ void apply(PointwiseFn fn, const float (&a)[N], const float (&b)[N], const float (&c)[N],
                      const float (&d)[N], float (&y)[N]) {
  switch (fn) {
    case PointwiseFn::kAdd:
      return map2(a, b, y, [](float u, float v) { return u + v; });
    case PointwiseFn::kSub:
      return map2(a, b, y, [](float u, float v) { return u - v; });
    case PointwiseFn::kMul:
      return map2(a, b, y, [](float u, float v) { return u * v; });
    case PointwiseFn::kDiv:
      return map2(a, b, y, [](float u, float v) { return u / v; });
    case PointwiseFn::kMax:
      return map2(a, b, y, [](float u, float v) { return u > v ? u : v; });
    case PointwiseFn::kMin:
      return map2(a, b, y, [](float u, float v) { return u < v ? u : v; });
    case PointwiseFn::kMulAdd:
      for (int k = 0; k < N; ++k) y[k] = fmaf(a[k], b[k], c[k]);
      return;
    case PointwiseFn::kSelect:
      for (int k = 0; k < N; ++k) y[k] = a[k] <= b[k] ? c[k] : d[k];
      return;
    case PointwiseFn::kExp:
      return map(a, y, [](float v) { return expf(v); });
    case PointwiseFn::kExpm1:
      return map(a, y, [](float v) { return expm1f(v); });
    case PointwiseFn::kTanh:
      return map(a, y, [](float v) { return tanhf(v); });
    case PointwiseFn::kSigmoid:
      return map(a, y, [](float v) { return sigmoid(v); });
    case PointwiseFn::kErf:
      return map(a, y, [](float v) { return erff(v); });
    case PointwiseFn::kBf16:
      return map(a, y, [](float v) { return rounded<Bf16>(v); });
    case PointwiseFn::kF16:
      return map(a, y, [](float v) { return rounded<F16>(v); });
  }
}

// Three blocks to a multiprocessor: without the limit the transcendental functions, eight at a
// time, take registers that cost the simple ones the threads to hide memory behind.
// y [n] in order; inputs like it, or wherever their axes say.
template <class Y>
__global__ void __launch_bounds__(kThreads, 3) run_steps(PointwiseArgs args, Y* y, bool whole) {
  ASSAY_ROLLED
  for (int64_t begin = global_thread() * N; begin < args.n; begin += total_threads() * N) {
    const int n = args.n - begin < N ? static_cast<int>(args.n - begin) : N;
    float last[N] = {};  // of the step before
    float earlier[kMostPointwiseSteps][N];
    ASSAY_ROLLED
    for (int s = 0; s < args.steps; ++s) {
      const PointwiseArgs::Step& step = args.step[s];
      const auto operand = [&](int k, float(&v)[N]) {
        const int which = step.operand[k] - kMostPointwiseInputs;
        if (step.operand[k] < 0) {
          for (int i = 0; i < N; ++i) v[i] = step.number[k];
        } else if (which < 0) {
          load_input(args.input[step.operand[k]], begin, args.n, n, whole, v);
        } else {
          for (int i = 0; i < N; ++i) v[i] = which == s - 1 ? last[i] : earlier[which][i];
        }
      };
      float a[N], b[N], c[N], d[N];
      operand(0, a), operand(1, b), operand(2, c), operand(3, d);
      apply(step.fn, a, b, c, d, last);
      if (step.is_kept) {
        for (int i = 0; i < N; ++i) earlier[s][i] = last[i];
      }
    }
    store_pack<N>(y + begin, n, whole, last);
  }
}

}  // namespace

void pointwise(Stream stream, Element y_element, const PointwiseArgs& args, void* y) {
  if (args.n == 0) return;
  bool whole = on_16_bytes(y);
  for (int i = 0; i < args.inputs; ++i) whole = whole && on_16_bytes(args.input[i].data);
  dispatch(y_element, [&]<class Y>(Y) {
    launch(stream, blocks_for(ceil_div(args.n, N)), kThreads, run_steps<Y>, args,
           static_cast<Y*>(y), whole);
  });
}

}  // namespace assay::cuda::kernels
