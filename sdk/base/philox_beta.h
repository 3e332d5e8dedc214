// Beta-distributed numbers from Philox streams, in f64.
#pragma once

#include <cmath>

#include "sdk/base/philox.h"

namespace assay {

// Gamma(shape, 1) for shape > 0: Marsaglia and Tsang, "A simple method for generating gamma
// variables", ACM TOMS 26 (2000); shapes below 1 through shape + 1, as they say in section 6.
inline double philox_gamma(PhiloxStream& random, double shape) {
  const auto uniform = [&] { return (random.bits() + 0.5) * 0x1p-32; };
  if (shape < 1) {
    const double boost = std::pow(uniform(), 1 / shape);
    return philox_gamma(random, shape + 1) * boost;
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = static_cast<double>(random.normal());
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log(uniform()) < 0.5 * x * x + d * (1 - v + std::log(v))) return d * v;
  }
}

// Beta(alpha, alpha), in [0, 1].
inline double philox_beta(PhiloxStream& random, double alpha) {
  const double a = philox_gamma(random, alpha), b = philox_gamma(random, alpha);
  return a + b > 0 ? a / (a + b) : 0.5;  // both vanish only for a tiny alpha
}

}  // namespace assay
