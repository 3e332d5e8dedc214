// A convolution cut into slabs: rows of its result, one after the other, each with the rows of x
// that its windows reach.
#pragma once

#include <algorithm>
#include <vector>

#include "sdk/backend/cpu/ops/own_kernel.h"
#include "sdk/graph/ops.h"

namespace assay::cpu {

struct Slab {
  int64_t y_first, y_rows, x_first, x_rows;
  ConvGeometry geometry;  // padded at the ends of the image only
};

// As many as `count` at most, of even size; none if one would read padding alone. x [N,H,W,C],
// w [K,R,S,C], y [N,P,Q,K].
inline std::vector<Slab> slabs_of(const ConvGeometry& g, const Dims& x, const Dims& w,
                                  const Dims& y, int64_t count) {
  std::vector<Slab> slabs;
  const Chunks rows{y[1], quotient_up(y[1], count)};
  for (int64_t i = 0; i < rows.count(); ++i) {
    const int64_t first = rows.begin(i) * g.stride[0] - g.pad_begin[0];
    const int64_t end =
        (rows.end(i) - 1) * g.stride[0] - g.pad_begin[0] + (w[1] - 1) * g.dilation[0] + 1;
    Slab slab{rows.begin(i), rows.length(i), std::max<int64_t>(first, 0), 0, g};
    slab.x_rows = std::min(end, x[1]) - slab.x_first;
    if (slab.x_rows <= 0) return {};
    slab.geometry.pad_begin[0] = slab.x_first - first;
    slab.geometry.pad_end[0] = end - slab.x_first - slab.x_rows;
    slabs.push_back(slab);
  }
  return slabs;
}

}  // namespace assay::cpu
