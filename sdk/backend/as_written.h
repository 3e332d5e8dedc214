// Shared by the optimizers of all backends.
#pragma once

#include <charconv>

namespace assay {

// The number that was meant by an f32 attribute: the shortest decimal that rounds to it. 1 - 0.999f
// is 1.3e-5 off 0.001, and 1 - 0.9999f 1.7e-4 off 0.0001, which moments and averages would inherit.
inline double as_written(float attribute) {
  char digits[40];
  const auto end = std::to_chars(digits, digits + sizeof digits, attribute).ptr;
  double number = attribute;
  std::from_chars(digits, end, number);
  return number;
}

inline float complement(double beta) { return static_cast<float>(1.0 - beta); }

}  // namespace assay
