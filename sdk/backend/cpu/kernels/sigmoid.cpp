// The cross-entropy of sigmoids: log(1 + e^-|x|) is small where |x| is large, so nothing overflows
// and nothing is lost.
#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/backend/cpu/kernels/lane_math.h"

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
  for (int64_t i = 0; i < n; ++i) {
    const float wrong = sigmoid(load(from[i])) - static_cast<float>(target[i]);
    store(to[i], target[i] == -1       ? 0.0f
                 : is_known(target[i]) ? factor * wrong
                                       : __builtin_nanf(""));
  }
}

// Of u, which should be large: e = e^-|u|, and -log sigmoid of both signs.
struct Softplus {
  float e, of_minus, of_plus;  // log(1 + e^-u), log(1 + e^u)
};
inline Softplus softplus(float u) {
  const float e = exponential(-magnitude(u));
  const float small = logarithm_of_1_plus(e);
  return {e, relu(-u) + small, relu(u) + small};
}

// What is added up at a time: long enough for full vectors, short enough for the first cache.
constexpr int64_t kBlock = 512, kLanes = 16;

template <class T>
double focal(const void* x, bool hit, float gamma, int64_t n) {
  const T* from = static_cast<const T*>(x);
  const float sign = hit ? 1.0f : -1.0f;
  double lanes[kLanes] = {};
  float block[kBlock];
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t length = least(kBlock, n - begin), whole = (length + kLanes - 1) / kLanes;
    for (int64_t i = length; i < whole * kLanes; ++i) block[i] = 0;
    for (int64_t i = 0; i < length; ++i) {
      const Softplus s = softplus(sign * load(from[begin + i]));
      block[i] = exponential(-gamma * s.of_plus) * s.of_minus;
    }
    for (int64_t i = 0; i < whole; ++i)
      for (int64_t l = 0; l < kLanes; ++l) lanes[l] += static_cast<double>(block[i * kLanes + l]);
  }
  double sum = 0;
  for (int64_t l = 0; l < kLanes; ++l) sum += lanes[l];
  return sum;
}

template <class T>
void focal_grad(const void* x, bool hit, float gamma, float factor, void* dx, int64_t n) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(dx);
  const float sign = hit ? 1.0f : -1.0f, scale = -sign * factor;
  for (int64_t i = 0; i < n; ++i) {
    const float u = sign * load(from[i]);
    const Softplus s = softplus(u);
    const float larger = 1.0f / (1.0f + s.e), smaller = s.e * larger;  // sigmoids of |u|, -|u|
    const float p = u < 0 ? smaller : larger, miss = u < 0 ? larger : smaller;
    store(to[i], scale * exponential(-gamma * s.of_plus) * fma(gamma * p, s.of_minus, miss));
  }
}

}  // namespace

extern const SigmoidKernels kSigmoid;
const SigmoidKernels kSigmoid = {{cross_entropy<float>, cross_entropy<Bf16>},
                                 {cross_entropy_grad<float>, cross_entropy_grad<Bf16>},
                                 {focal<float>, focal<Bf16>},
                                 {focal_grad<float>, focal_grad<Bf16>}};

}  // namespace assay::cpu::ASSAY_ISA
