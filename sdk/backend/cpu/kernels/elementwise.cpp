#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/backend/cpu/kernels/lane_math.h"

namespace assay::cpu::ASSAY_ISA {
namespace {

// The values of ActivationKind.
enum Kind { kRelu = 1, kElu = 2, kTanh = 3, kSigmoid = 4, kGelu = 5, kSwish = 6 };

template <class From, class To, class F>
void map(const void* x, void* y, int64_t n, F f) {
  const From* in = static_cast<const From*>(x);
  To* out = static_cast<To*>(y);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out[i], f(load(in[i])));
}

template <class T, class F>
void map2(const void* a, const void* b, void* y, int64_t n, F f) {
  const T* left = static_cast<const T*>(a);
  const T* right = static_cast<const T*>(b);
  T* out = static_cast<T*>(y);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out[i], f(load(left[i]), load(right[i])));
}

template <class From, class To>
void cast(const void* x, void* y, int64_t n) {
  map<From, To>(x, y, n, [](float v) { return v; });
}

template <class T>
void add(const void* a, const void* b, void* y, int64_t n) {
  map2<T>(a, b, y, n, [](float u, float v) { return u + v; });
}

template <class T>
void activation(int kind, const void* x, void* y, int64_t n) {
  switch (kind) {
    case kRelu:
      return map<T, T>(x, y, n, [](float v) { return relu(v); });
    case kElu:
      return map<T, T>(x, y, n, [](float v) {
        const float negative = exponential_minus_1(v > 0.0f ? 0.0f : v);
        return v > 0.0f ? v : negative;
      });
    case kTanh:
      return map<T, T>(x, y, n, [](float v) { return hyperbolic_tangent(v); });
    case kSigmoid:
      return map<T, T>(x, y, n, [](float v) { return sigmoid(v); });
    case kGelu:
      return map<T, T>(x, y, n, [](float v) { return v * normal_cdf(v); });
    case kSwish:
      return map<T, T>(x, y, n, [](float v) { return v * sigmoid(v); });
  }
}

// `saved` is y for the first four kinds, x for the others.
template <class T>
void activation_grad(int kind, const void* saved, const void* dy, void* dx, int64_t n) {
  switch (kind) {
    case kRelu:
      return map2<T>(saved, dy, dx, n, [](float y, float g) { return y <= 0.0f ? 0.0f : g; });
    case kElu:
      return map2<T>(saved, dy, dx, n,
                     [](float y, float g) { return y > 0.0f ? g : g * (y + 1.0f); });
    case kTanh:
      return map2<T>(saved, dy, dx, n, [](float y, float g) { return g * fma(-y, y, 1.0f); });
    case kSigmoid:
      return map2<T>(saved, dy, dx, n, [](float y, float g) { return g * y * (1.0f - y); });
    case kGelu:
      return map2<T>(saved, dy, dx, n,
                     [](float x, float g) { return g * fma(x, normal_pdf(x), normal_cdf(x)); });
    case kSwish:
      return map2<T>(saved, dy, dx, n, [](float x, float g) {
        const float s = sigmoid(x);
        return g * s * fma(x, 1.0f - s, 1.0f);
      });
  }
}

}  // namespace

extern const ElementwiseKernels kElementwise;
const ElementwiseKernels kElementwise = {
    {{cast<float, float>, cast<float, Bf16>}, {cast<Bf16, float>, cast<Bf16, Bf16>}},
    {activation<float>, activation<Bf16>},
    {activation_grad<float>, activation_grad<Bf16>},
    {add<float>, add<Bf16>},
};

}  // namespace assay::cpu::ASSAY_ISA
