// The steps of Pointwise, one loop each: a block of a few hundred elements goes through all steps
// of a node while it stays in the first-level cache.
#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/backend/cpu/kernels/vector_math.h"

namespace assay::cpu::ASSAY_ISA {
namespace {

// Functions of loops take in all they call, and stand alone, since a function of the size that all
// of them have together takes in nothing more.
#define ASSAY_LOOP [[gnu::flatten]] [[gnu::noinline]]

// Operands and y [n], in f32 between load and store.
template <class X, class Y, class F>
ASSAY_LOOP void map(const PointwiseRange* x, PointwiseRange y, int64_t n, F f) {
  const X* a = static_cast<const X*>(x[0].data);
  Y* out = static_cast<Y*>(y.data);
  for_vectors(n, [&](int64_t i, int64_t count) {
    stream_lanes(out + i, f(stream_lanes(a + i, count)), count);
  });
}

template <class A, class B, class Y, class F>
ASSAY_LOOP void map2(const PointwiseRange* x, PointwiseRange y, int64_t n, F f) {
  const A* a = static_cast<const A*>(x[0].data);
  const B* b = static_cast<const B*>(x[1].data);
  Y* out = static_cast<Y*>(y.data);
  for_vectors(n, [&](int64_t i, int64_t count) {
    stream_lanes(out + i, f(stream_lanes(a + i, count), stream_lanes(b + i, count)), count);
  });
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
ASSAY_LOOP void mul_add(const PointwiseRange* x, PointwiseRange y, int64_t n) {
  const float* a = static_cast<const float*>(x[0].data);
  const float* b = static_cast<const float*>(x[1].data);
  const float* c = static_cast<const float*>(x[2].data);
  Y* out = static_cast<Y*>(y.data);
  for_vectors(n, [&](int64_t i, int64_t count) {
    const Vec product =
        fma(stream_lanes(a + i, count), stream_lanes(b + i, count), stream_lanes(c + i, count));
    stream_lanes(out + i, product, count);
  });
}

template <class T>
ASSAY_LOOP void select(const PointwiseRange* x, PointwiseRange y, int64_t n) {
  const T* a = static_cast<const T*>(x[0].data);
  const float* b = static_cast<const float*>(x[1].data);
  const float* c = static_cast<const float*>(x[2].data);
  const T* d = static_cast<const T*>(x[3].data);
  T* out = static_cast<T*>(y.data);
  for_vectors(n, [&](int64_t i, int64_t count) {
    const Vec if_less = load_lanes(c + i, count), if_greater = stream_lanes(d + i, count);
    const Vec chosen =
        stream_lanes(a + i, count) <= load_lanes(b + i, count) ? if_less : if_greater;
    stream_lanes(out + i, chosen, count);
  });
}

// As load(store(v)) of bf16, without the trip through memory.
inline Vec as_bf16(Vec v) { return float_of(bf16_bits(v) & 0xffff0000u); }

// As load(store(v)) of f16: below 2^-14 a multiple of 2^-24, else rounded to 10 bits of fraction,
// ties to even; 65520 and above are infinite.
inline Vec as_f16(Vec v) {
  const VecBits bits = bits_of(v);
  const VecBits sign = bits & 0x80000000u, magnitude = bits & 0x7FFFFFFFu;
  const Vec small = float_of(magnitude) + 0.5f;
  const auto units = reinterpret_cast<VecMask>(bits_of(small) - 0x3F000000u);
  const VecBits tiny = bits_of(__builtin_convertvector(units, Vec) * 0x1p-24f);
  const VecBits normal = (magnitude + 0xFFFu + ((magnitude >> 13) & 1u)) & ~0x1FFFu;
  const VecBits finite = magnitude < 0x38800000u ? tiny : normal;
  const VecBits infinity = VecBits{} + 0x7F800000u;
  const VecBits large = magnitude > 0x7F800000u ? magnitude : infinity;  // NaN, infinity
  return float_of(sign | (magnitude >= 0x477FF000u ? large : finite));
}

void step(PointwiseFn fn, const PointwiseRange* x, PointwiseRange y, int64_t n) {
  const bool wide = y.element == kElementF32;
  switch (fn) {
    case PointwiseFn::kAdd:
      return binary(x, y, n, [](Vec a, Vec b) { return a + b; });
    case PointwiseFn::kSub:
      return binary(x, y, n, [](Vec a, Vec b) { return a - b; });
    case PointwiseFn::kMul:
      return binary(x, y, n, [](Vec a, Vec b) { return a * b; });
    case PointwiseFn::kDiv:
      return binary(x, y, n, [](Vec a, Vec b) { return a / b; });
    case PointwiseFn::kMax:
      return binary(x, y, n, [](Vec a, Vec b) { return a > b ? a : b; });
    case PointwiseFn::kMin:
      return binary(x, y, n, [](Vec a, Vec b) { return a < b ? a : b; });
    case PointwiseFn::kMulAdd:
      return wide ? mul_add<float>(x, y, n) : mul_add<Bf16>(x, y, n);
    case PointwiseFn::kSelect:
      return wide ? select<float>(x, y, n) : select<Bf16>(x, y, n);
    case PointwiseFn::kExp:
      return unary(x, y, n, [](Vec v) { return exponential(v); });
    case PointwiseFn::kExpm1:
      return unary(x, y, n, [](Vec v) { return exponential_minus_1(v); });
    case PointwiseFn::kTanh:
      return unary(x, y, n, [](Vec v) { return hyperbolic_tangent(v); });
    case PointwiseFn::kSigmoid:
      return unary(x, y, n, [](Vec v) { return sigmoid(v); });
    case PointwiseFn::kErf:
      return unary(x, y, n, [](Vec v) { return error_function(v); });
    case PointwiseFn::kBf16:
      return unary(x, y, n, [](Vec v) { return as_bf16(v); });
    case PointwiseFn::kF16:
      return unary(x, y, n, [](Vec v) { return as_f16(v); });
  }
}

}  // namespace

extern const PointwiseKernels kPointwise;
const PointwiseKernels kPointwise = {step};

}  // namespace assay::cpu::ASSAY_ISA
