// Losses over the pixels of an image, [pixels, classes] against soft targets in f32. Sums over
// pixels are f64; the caller adds its ranges in a fixed order.
#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/backend/cpu/kernels/vector_math.h"

namespace assay::cpu::ASSAY_ISA {
namespace {

// x [classes].
template <class T>
RowSums row_sums(const T* x, int64_t classes) {
  float largest = load(x[0]);
  for (int64_t c = 1; c < classes; ++c) {
    const float v = load(x[c]);
    largest = v > largest ? v : largest;
  }
  float sum = 0;  // a NaN anywhere in the row makes it NaN
  for (int64_t c = 0; c < classes; ++c) sum += exponential(load(x[c]) - largest);
  return {largest, sum};
}

// x, target [pixels, classes].
template <class T>
double cross_entropy(const void* x, const float* target, int64_t pixels, int64_t classes) {
  double sum = 0;
  for (int64_t i = 0; i < pixels; ++i) {
    const T* row = static_cast<const T*>(x) + i * classes;
    const float* t = target + i * classes;
    const RowSums s = row_sums(row, classes);
    const double log_sum = __builtin_log(static_cast<double>(s.exponentials));
    for (int64_t c = 0; c < classes; ++c) {
      // Not t * (...): an infinite logit of another class must not make 0 * infinity.
      if (t[c] == 0.0f && log_sum == log_sum) continue;
      sum += static_cast<double>(t[c]) * (log_sum + static_cast<double>(s.largest - load(row[c])));
    }
  }
  return sum;
}

// x, target, dx [pixels, classes]. A row's sums are taken before its dx is written.
template <class T>
void cross_entropy_grad(const void* x, const float* target, float factor, void* dx, int64_t pixels,
                        int64_t classes) {
  for (int64_t i = 0; i < pixels; ++i) {
    const T* row = static_cast<const T*>(x) + i * classes;
    T* out = static_cast<T*>(dx) + i * classes;
    const float* t = target + i * classes;
    const RowSums s = row_sums(row, classes);
    const float inverse = 1.0f / s.exponentials;
    float weight = 0;
    for (int64_t c = 0; c < classes; ++c) weight += t[c];
    for (int64_t c = 0; c < classes; ++c) {
      const float p = exponential(load(row[c]) - s.largest) * inverse;
      store(out[c], factor * (p * weight - t[c]));
    }
  }
}

// x, target [pixels, classes]; sums [3, classes].
template <class T>
void overlap(const void* x, const float* target, int64_t pixels, int64_t classes, double* sums) {
  double* common = sums;
  double* p_squares = sums + classes;
  double* t_squares = sums + 2 * classes;
  for (int64_t c = 0; c < 3 * classes; ++c) sums[c] = 0;
  for (int64_t i = 0; i < pixels; ++i) {
    const T* row = static_cast<const T*>(x) + i * classes;
    const float* t = target + i * classes;
    const RowSums s = row_sums(row, classes);
    const float inverse = 1.0f / s.exponentials;
    for (int64_t c = 0; c < classes; ++c) {
      const float p = exponential(load(row[c]) - s.largest) * inverse;
      common[c] += static_cast<double>(p * t[c]);
      p_squares[c] += static_cast<double>(p * p);
      t_squares[c] += static_cast<double>(t[c] * t[c]);
    }
  }
}

// x, target, dx [pixels, classes]; by_target, by_p [classes].
template <class T>
void overlap_grad(const void* x, const float* target, const float* by_target, const float* by_p,
                  void* dx, int64_t pixels, int64_t classes) {
  for (int64_t i = 0; i < pixels; ++i) {
    const T* row = static_cast<const T*>(x) + i * classes;
    T* out = static_cast<T*>(dx) + i * classes;
    const float* t = target + i * classes;
    const RowSums s = row_sums(row, classes);
    const float inverse = 1.0f / s.exponentials;
    float mean = 0;  // of the gradient of p, weighted by p
    for (int64_t c = 0; c < classes; ++c) {
      const float p = exponential(load(row[c]) - s.largest) * inverse;
      mean += p * (by_target[c] * t[c] + by_p[c] * p);
    }
    // dx may be x: a class is overwritten only after its own p was taken.
    for (int64_t c = 0; c < classes; ++c) {
      const float p = exponential(load(row[c]) - s.largest) * inverse;
      store(out[c], p * (by_target[c] * t[c] + by_p[c] * p - mean));
    }
  }
}

}  // namespace

extern const SoftTargetLossKernels kSoftTargetLoss;
const SoftTargetLossKernels kSoftTargetLoss = {
    {cross_entropy<float>, cross_entropy<Bf16>},
    {cross_entropy_grad<float>, cross_entropy_grad<Bf16>},
    {overlap<float>, overlap<Bf16>},
    {overlap_grad<float>, overlap_grad<Bf16>},
};

}  // namespace assay::cpu::ASSAY_ISA
