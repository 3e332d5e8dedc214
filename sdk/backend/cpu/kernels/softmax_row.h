// What a row of logits is divided by. Included only by the kernels (see kernels.h for the include
// rule).
#pragma once

#include "sdk/backend/cpu/kernels/vector_math.h"

namespace assay::cpu::ASSAY_ISA {

struct RowSums {
  float largest;
  float exponentials;  // sum of e^(x - largest)
};

// x [classes].
template <class T>
RowSums row_sums(const T* x, int64_t classes) {
  Vec lanes = Vec{} - __builtin_inff();
  for_vectors(classes, [&](int64_t c, int64_t n) {
    const Vec v = first_lanes(load_lanes(x + c, n), n, -__builtin_inff());
    lanes = v > lanes ? v : lanes;
  });
  float largest = lanes[0];
  for (int64_t i = 1; i < least(classes, kLanes); ++i)
    largest = lanes[i] > largest ? lanes[i] : largest;
  Vec sum{};  // a NaN anywhere in the row makes it NaN
  for_vectors(classes, [&](int64_t c, int64_t n) {
    sum += first_lanes(exponential(load_lanes(x + c, n) - largest), n);
  });
  return {largest, sum_of_lanes(sum, classes)};
}

// The probabilities of classes c to c + n - 1.
template <class T>
Vec probabilities(const RowSums& s, const T* x, int64_t c, int64_t n) {
  return exponential(load_lanes(x + c, n) - s.largest) * (1.0f / s.exponentials);
}

}  // namespace assay::cpu::ASSAY_ISA
