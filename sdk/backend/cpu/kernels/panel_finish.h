// What follows a product in panels: y = act(sums + bias), from a block of sums that is still in the
// first-level cache.
#pragma once

#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/backend/cpu/kernels/vector_math.h"

namespace assay::cpu::ASSAY_ISA {

inline Vec activated(Vec x, ActivationKind kind) {
  switch (kind) {
    case ActivationKind::kNone:
      return x;
    case ActivationKind::kRelu:
      return relu(x);
    case ActivationKind::kElu:
      return x > 0.0f ? x : exponential_minus_1(at_most(x, 0.0f));
    case ActivationKind::kTanh:
      return hyperbolic_tangent(x);
    case ActivationKind::kSigmoid:
      return sigmoid(x);
    case ActivationKind::kGelu:
      return 0.5f * x * (1.0f + error_function(x * 0.70710678f));
    case ActivationKind::kSwish:
      return x * sigmoid(x);
    case ActivationKind::kGeluTanh:
      return 0.5f * x *
             (1.0f + hyperbolic_tangent(kGeluTanhScale * (x + kGeluTanhCubic * x * x * x)));
  }
  return x;
}

// Of the block of y at (row, column), sums with kPitch elements from row to row.
template <class T, void (*kStore)(T*, Vec, int64_t), int64_t kPitch, bool kPlain>
void finish(const PanelProduct& p, const float* sums, int64_t row, int64_t rows, int64_t column,
            int64_t columns) {
  T* y = static_cast<T*>(p.y) + row * p.columns + column;
  for (int64_t c = 0; c < columns; c += kLanes) {
    const int64_t n = columns - c;
    const Vec bias = p.bias == nullptr ? Vec{} : load_lanes(p.bias + column + c, n);
    for (int64_t r = 0; r < rows; ++r) {
      const Vec v = load_vec(sums + r * kPitch + c) + bias;
      kStore(y + r * p.columns + c, kPlain ? v : activated(v, p.activation), n);
    }
  }
}

using Finish = void (*)(const PanelProduct&, const float*, int64_t, int64_t, int64_t, int64_t);
template <class T, void (*kStore)(T*, Vec, int64_t), int64_t kPitch>
Finish finish_of(ActivationKind kind) {
  return kind == ActivationKind::kNone ? finish<T, kStore, kPitch, true>
                                       : finish<T, kStore, kPitch, false>;
}

}  // namespace assay::cpu::ASSAY_ISA
