// The cross-entropy of sigmoids: log(1 + e^-|x|) is small where |x| is large, so nothing overflows
// and nothing is lost.
#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/backend/cpu/kernels/vector_math.h"

namespace assay::cpu::ASSAY_ISA {
namespace {

bool is_known(int32_t target) { return target == 0 || target == 1; }

template <class T>
double cross_entropy(const void* x, const int32_t* target, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (target[i] == -1) continue;
    if (!is_known(target[i])) return __builtin_nan("");
    // -log sigmoid of what should be large
    const float v = load(static_cast<const T*>(x)[i]), should = target[i] == 1 ? v : -v;
    const float small = exponential(-magnitude(v));
    sum += static_cast<double>(should < 0 ? -should : 0.0f) +
           __builtin_log1p(static_cast<double>(small));
  }
  return sum;
}

template <class T>
void cross_entropy_grad(const void* x, const int32_t* target, float factor, void* dx, int64_t n) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(dx);
  for_vectors(n, [&](int64_t i, int64_t count) {
    Vec gradient = sigmoid(load_lanes(from + i, count));
    for (int64_t l = 0; l < count; ++l) {
      const int32_t t = target[i + l];
      gradient[l] = t == -1       ? 0.0f
                    : is_known(t) ? factor * (gradient[l] - static_cast<float>(t))
                                  : __builtin_nanf("");
    }
    store_lanes(to + i, gradient, count);
  });
}

// Of u, which should be large: e = e^-|u|, and -log sigmoid of both signs.
struct Softplus {
  Vec e, of_minus, of_plus;  // log(1 + e^-u), log(1 + e^u)
};
inline Softplus softplus(Vec u) {
  const Vec e = exponential(-magnitude(u));
  const Vec small = logarithm_of_1_plus(e);
  return {e, relu(-u) + small, relu(u) + small};
}

template <class T>
[[gnu::flatten]] double focal(const void* x, bool hit, float gamma, int64_t n) {
  const T* from = static_cast<const T*>(x);
  const float sign = hit ? 1.0f : -1.0f;
  double lanes[kLanes] = {};
  for_vectors(n, [&](int64_t i, int64_t count) {
    const Softplus s = softplus(sign * stream_lanes(from + i, count));
    const Vec loss = exponential(-gamma * s.of_plus) * s.of_minus;
    for (int64_t l = 0; l < count; ++l) lanes[l] += static_cast<double>(loss[l]);
  });
  double sum = 0;
  for (int64_t l = 0; l < kLanes; ++l) sum += lanes[l];
  return sum;
}

template <class T>
[[gnu::flatten]] void focal_grad(const void* x, bool hit, float gamma, float factor, void* dx,
                                 int64_t n) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(dx);
  const float sign = hit ? 1.0f : -1.0f, scale = -sign * factor;
  for_vectors(n, [&](int64_t i, int64_t count) {
    const Vec u = sign * stream_lanes(from + i, count);
    const Softplus s = softplus(u);
    const Vec larger = 1.0f / (1.0f + s.e), smaller = s.e * larger;  // sigmoids of |u|, -|u|
    const Vec p = u < 0.0f ? smaller : larger, miss = u < 0.0f ? larger : smaller;
    const Vec d = scale * exponential(-gamma * s.of_plus) * fma(gamma * p, s.of_minus, miss);
    stream_lanes(to + i, d, count);
  });
}

}  // namespace

extern const SigmoidKernels kSigmoid;
const SigmoidKernels kSigmoid = {{cross_entropy<float>, cross_entropy<Bf16>},
                                 {cross_entropy_grad<float>, cross_entropy_grad<Bf16>},
                                 {focal<float>, focal<Bf16>},
                                 {focal_grad<float>, focal_grad<Bf16>}};

}  // namespace assay::cpu::ASSAY_ISA
