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

}  // namespace

extern const SigmoidKernels kSigmoid;
const SigmoidKernels kSigmoid = {{cross_entropy<float>, cross_entropy<Bf16>},
                                 {cross_entropy_grad<float>, cross_entropy_grad<Bf16>}};

}  // namespace assay::cpu::ASSAY_ISA
