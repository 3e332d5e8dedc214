// The steps of Pointwise, one loop each: a block of a few hundred elements goes through all steps
// of a node while it stays in the first-level cache.
#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/backend/cpu/kernels/lane_math.h"

namespace assay::cpu::ASSAY_ISA {
namespace {

// A loop of a call does not become vector code: functions of loops take in all they call, and stand
// alone, since a function of the size that all of them have together takes in nothing more.
#define ASSAY_LOOP [[gnu::flatten]] [[gnu::noinline]]

// Operands and y [n], in f32 between load and store.
template <class X, class Y, class F>
ASSAY_LOOP void map(const PointwiseRange* x, PointwiseRange y, int64_t n, F f) {
  const X* a = static_cast<const X*>(x[0].data);
  Y* out = static_cast<Y*>(y.data);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out[i], f(load(a[i])));
}

template <class A, class B, class Y, class F>
ASSAY_LOOP void map2(const PointwiseRange* x, PointwiseRange y, int64_t n, F f) {
  const A* a = static_cast<const A*>(x[0].data);
  const B* b = static_cast<const B*>(x[1].data);
  Y* out = static_cast<Y*>(y.data);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out[i], f(load(a[i]), load(b[i])));
}

template <class F>
void unary(const PointwiseRange* x, PointwiseRange y, int64_t n, F f) {
  const bool wide = y.element == kElementF32;
  if (x[0].element == kElementF32) {
    return wide ? map<float, float>(x, y, n, f) : map<float, Bf16>(x, y, n, f);
  }
  return wide ? map<Bf16, float>(x, y, n, f) : map<Bf16, Bf16>(x, y, n, f);
}

template <class A, class F>
void binary_from(const PointwiseRange* x, PointwiseRange y, int64_t n, F f) {
  const bool wide = y.element == kElementF32;
  if (x[1].element == kElementF32) {
    return wide ? map2<A, float, float>(x, y, n, f) : map2<A, float, Bf16>(x, y, n, f);
  }
  return wide ? map2<A, Bf16, float>(x, y, n, f) : map2<A, Bf16, Bf16>(x, y, n, f);
}
template <class F>
void binary(const PointwiseRange* x, PointwiseRange y, int64_t n, F f) {
  return x[0].element == kElementF32 ? binary_from<float>(x, y, n, f)
                                     : binary_from<Bf16>(x, y, n, f);
}

template <class Y>
void mul_add(const PointwiseRange* x, PointwiseRange y, int64_t n) {
  const float* a = static_cast<const float*>(x[0].data);
  const float* b = static_cast<const float*>(x[1].data);
  const float* c = static_cast<const float*>(x[2].data);
  Y* out = static_cast<Y*>(y.data);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out[i], fma(a[i], b[i], c[i]));
}

template <class T>
void select(const PointwiseRange* x, PointwiseRange y, int64_t n) {
  const T* a = static_cast<const T*>(x[0].data);
  const float* b = static_cast<const float*>(x[1].data);
  const float* c = static_cast<const float*>(x[2].data);
  const T* d = static_cast<const T*>(x[3].data);
  T* out = static_cast<T*>(y.data);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out[i], load(a[i]) <= b[i] ? c[i] : load(d[i]));
}

// As load(store(v)) of bf16, without the trip through memory.
inline float as_bf16(float v) {
  Bf16 rounded;
  store(rounded, v);
  return load(rounded);
}

// As load(store(v)) of f16, in arithmetic that vectors can do: below 2^-14 a multiple of 2^-24,
// else rounded to 10 bits of fraction, ties to even; 65520 and above are infinite.
inline float as_f16(float v) {
  const auto bits = bits_of(v);
  const uint32_t sign = bits & 0x80000000u, magnitude = bits & 0x7FFFFFFFu;
  const float small = float_of(magnitude) + 0.5f;
  const auto units = static_cast<int32_t>(bits_of(small) - 0x3F000000u);
  const auto tiny = bits_of(static_cast<float>(units) * 0x1p-24f);
  const uint32_t normal = (magnitude + 0xFFFu + ((magnitude >> 13) & 1u)) & ~0x1FFFu;
  const uint32_t finite = magnitude < 0x38800000u ? tiny : normal;
  const uint32_t large = magnitude > 0x7F800000u ? magnitude : 0x7F800000u;  // NaN, infinity
  return float_of(sign | (magnitude >= 0x477FF000u ? large : finite));
}

void step(PointwiseFn fn, const PointwiseRange* x, PointwiseRange y, int64_t n) {
  const bool wide = y.element == kElementF32;
  switch (fn) {
    case PointwiseFn::kAdd:
      return binary(x, y, n, [](float a, float b) { return a + b; });
    case PointwiseFn::kSub:
      return binary(x, y, n, [](float a, float b) { return a - b; });
    case PointwiseFn::kMul:
      return binary(x, y, n, [](float a, float b) { return a * b; });
    case PointwiseFn::kDiv:
      return binary(x, y, n, [](float a, float b) { return a / b; });
    case PointwiseFn::kMax:
      return binary(x, y, n, [](float a, float b) { return a > b ? a : b; });
    case PointwiseFn::kMin:
      return binary(x, y, n, [](float a, float b) { return a < b ? a : b; });
    case PointwiseFn::kMulAdd:
      return wide ? mul_add<float>(x, y, n) : mul_add<Bf16>(x, y, n);
    case PointwiseFn::kSelect:
      return wide ? select<float>(x, y, n) : select<Bf16>(x, y, n);
    case PointwiseFn::kExp:
      return unary(x, y, n, [](float v) { return exponential(v); });
    case PointwiseFn::kExpm1:
      return unary(x, y, n, [](float v) { return exponential_minus_1(v); });
    case PointwiseFn::kTanh:
      return unary(x, y, n, [](float v) { return hyperbolic_tangent(v); });
    case PointwiseFn::kSigmoid:
      return unary(x, y, n, [](float v) { return sigmoid(v); });
    case PointwiseFn::kErf:
      return unary(x, y, n, [](float v) { return error_function(v); });
    case PointwiseFn::kBf16:
      return unary(x, y, n, [](float v) { return as_bf16(v); });
    case PointwiseFn::kF16:
      return unary(x, y, n, [](float v) { return as_f16(v); });
  }
}

}  // namespace

extern const PointwiseKernels kPointwise;
const PointwiseKernels kPointwise = {step};

}  // namespace assay::cpu::ASSAY_ISA
