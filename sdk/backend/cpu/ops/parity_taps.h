// The gradient of an image from a convolution of stride 2. Row i of dx, and column j alike, gets
// terms of the taps r with (i + pad - r) even: of every other one, which of them depends on whether
// i is even. So dx is four images, each of every other row and column, and each a convolution of dy
// of stride 1 with its own part of w, turned round.
#pragma once

#include <array>

#include "sdk/graph/ops.h"

namespace assay::cpu {

// The taps of one axis for the rows of dx that are even, or odd.
struct Taps {
  int64_t last, count;      // last: the one that meets the first row of dy
  int64_t pad_begin, size;  // of the convolution, and its result

  Taps(const ConvGeometry& g, const Dims& dx, const Dims& w, size_t axis, int64_t parity) {
    const auto d = static_cast<int>(axis) + 1;
    const int64_t first = (parity + g.pad_begin[axis]) % 2;
    count = (w[d] - first + 1) / 2;
    last = first + 2 * (count - 1);
    pad_begin = (last - parity - g.pad_begin[axis]) / 2;
    size = (dx[d] - parity + 1) / 2;
  }
  int64_t tap(int64_t t) const { return last - 2 * t; }
  int64_t pad_end(int64_t rows) const { return size - rows - pad_begin + count - 1; }
};

// Whether there are four such images, and taps for each of them.
inline bool has_four_parts(const ConvGeometry& g, const Dims& dx, const Dims& w) {
  constexpr std::array<int64_t, 2> kOne{1, 1}, kTwo{2, 2};
  if (g.groups != 1 || g.stride != kTwo || g.dilation != kOne) return false;
  for (const size_t axis : {0, 1}) {
    for (const int64_t parity : {0, 1}) {
      const Taps taps(g, dx, w, axis, parity);
      if (taps.count < 1 || taps.size < 1) return false;
    }
  }
  return true;
}

}  // namespace assay::cpu
