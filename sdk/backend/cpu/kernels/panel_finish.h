// What follows a product in panels: y = act(sums + bias + residual), from a block of sums that is
// still in the first-level cache.
#pragma once

#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/backend/cpu/kernels/vector_math.h"

namespace assay::cpu::ASSAY_ISA {

constexpr int64_t kLine = 64;  // bytes of a cache line

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

// Asks for the block of y at some rows, whose first elements are at `at`, and a column: it may hold
// a residual and will be written.
inline void ask_for_block(const PanelProduct& p, const int64_t* at, int64_t rows, int64_t column,
                          int64_t columns) {
  const int64_t size = size_of(p.element);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t b = 0; b < columns * size; b += kLine)
      __builtin_prefetch(static_cast<const char*>(p.y) + (at[r] + column) * size + b, 1);
}

// Of that block, sums with kPitch elements from row to row.
template <class T, void (*kStore)(T*, Vec, int64_t), int64_t kPitch, class Activate>
void finish(const PanelProduct& p, const float* sums, const int64_t* at, int64_t rows,
            int64_t column, int64_t columns, const Activate& activate) {
  T* y = static_cast<T*>(p.y) + column;
  const T* residual = p.residual == nullptr ? nullptr : static_cast<const T*>(p.residual) + column;
  for (int64_t c = 0; c < columns; c += kLanes) {
    const int64_t n = columns - c;
    const Vec bias = p.bias == nullptr ? Vec{} : load_lanes(p.bias + column + c, n);
    for (int64_t r = 0; r < rows; ++r) {
      Vec v = load_vec(sums + r * kPitch + c) + bias;
      if (residual != nullptr) v += load_lanes(residual + at[r] + c, n);
      kStore(y + at[r] + c, activate(v), n);
    }
  }
}

template <class T, void (*kStore)(T*, Vec, int64_t), int64_t kPitch>
void finish_block(const PanelProduct& p, const float* sums, const int64_t* at, int64_t rows,
                  int64_t column, int64_t columns) {
  const auto with = [&](const auto& activate) {
    finish<T, kStore, kPitch>(p, sums, at, rows, column, columns, activate);
  };
  if (p.activation == ActivationKind::kNone) return with([](Vec x) { return x; });
  if (p.activation == ActivationKind::kRelu) return with([](Vec x) { return relu(x); });
  with([&](Vec x) { return activated(x, p.activation); });
}

}  // namespace assay::cpu::ASSAY_ISA
