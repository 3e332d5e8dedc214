// The nine anchors of a cell (see Anchors in ops.h), for every backend.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace assay {

inline constexpr int kAnchorsPerCell = 9;
inline constexpr int kMaxLevels = 8;  // that a detector's heads may see the image at

// Height and width of each, octave after octave, for a level with cells of stride x stride pixels.
inline std::array<std::array<double, 2>, kAnchorsPerCell> anchor_sizes(double stride,
                                                                       double scale) {
  constexpr double kAspects[3][2] = {{1.0, 1.0}, {0.7, 1.4}, {1.4, 0.7}};
  std::array<std::array<double, 2>, kAnchorsPerCell> sizes{};
  size_t n = 0;
  for (int octave = 0; octave < 3; ++octave) {
    const double base = scale * stride * std::pow(2.0, octave / 3.0);
    for (const auto& aspect : kAspects) sizes[n++] = {base * aspect[0], base * aspect[1]};
  }
  return sizes;
}

}  // namespace assay
