#include "tests/harness/activation_reference.h"

#include <cmath>

namespace assay::test {

double activation_reference(ActivationKind kind, double x) {
  switch (kind) {
    case ActivationKind::kNone:
      return x;
    case ActivationKind::kRelu:
      return x > 0 ? x : 0;
    case ActivationKind::kElu:
      return x > 0 ? x : std::expm1(x);
    case ActivationKind::kTanh:
      return std::tanh(x);
    case ActivationKind::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case ActivationKind::kGelu:
      return x / 2 * std::erfc(-x * std::sqrt(0.5));
    case ActivationKind::kSwish:
      return x / (1 + std::exp(-x));
    case ActivationKind::kGeluTanh:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
  }
  return 0;
}

double derivative_reference(ActivationKind kind, double y) {
  switch (kind) {
    case ActivationKind::kRelu:
      return y > 0 ? 1 : 0;
    case ActivationKind::kElu:
      return y > 0 ? 1 : y + 1;
    case ActivationKind::kTanh:
      return 1 - y * y;
    case ActivationKind::kSigmoid:
      return y * (1 - y);
    default:
      return 1;
  }
}

std::vector<ActivationKind> all_activations() {
  using enum ActivationKind;
  return {kNone, kRelu, kElu, kTanh, kSigmoid, kGelu, kSwish, kGeluTanh};
}

double activation_ulps(ActivationKind kind) {
  // Exact but for one rounding; the others are polynomials or quotients of a few ulps.
  return kind == ActivationKind::kNone || kind == ActivationKind::kRelu ? 0 : 8;
}

}  // namespace assay::test
