// A convolution cut into slabs: rows of its result, one after the other, each with the rows of x
// that its windows reach.
#pragma once

#include <algorithm>
#include <vector>

#include "sdk/graph/ops.h"

namespace assay::cpu {

struct Slab {
  int64_t y_first, y_rows, x_first, x_rows;
  ConvGeometry geometry;  // padded at the ends of the image only
};

// `count` of them, whose numbers of rows differ by one at most; none if one would read padding
// alone. x [N,H,W,C], w [K,R,S,C], y [N,P,Q,K].
inline std::vector<Slab> slabs_of(const ConvGeometry& g, const Dims& x, const Dims& w,
                                  const Dims& y, int64_t count) {
  std::vector<Slab> slabs;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t y_first = i * y[1] / count, y_end = (i + 1) * y[1] / count;
    const int64_t first = y_first * g.stride[0] - g.pad_begin[0];
    const int64_t end = (y_end - 1) * g.stride[0] - g.pad_begin[0] + (w[1] - 1) * g.dilation[0] + 1;
    const int64_t x_first = std::max<int64_t>(first, 0), x_end = std::min(end, x[1]);
    if (x_end <= x_first) return {};
    Slab slab{y_first, y_end - y_first, x_first, x_end - x_first, g};
    slab.geometry.pad_begin[0] = x_first - first;
    slab.geometry.pad_end[0] = end - x_end;
    slabs.push_back(slab);
  }
  return slabs;
}

}  // namespace assay::cpu
