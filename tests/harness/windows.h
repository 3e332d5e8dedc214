// Windows of pooling, for references.
#pragma once

#include "sdk/graph/ops.h"

namespace assay::test {

// Calls visit(output index, input index, place in the window) for every element of x [N,H,W,C]
// inside a window of y [N,P,Q,C], windows row by row.
template <class Visit>
void for_windows(const PoolGeometry& g, const Dims& x, const Dims& y, const Visit& visit) {
  for (int64_t o = 0; o < y.numel(); ++o) {
    const int64_t c = o % y[3], q = o / y[3] % y[2], p = o / (y[3] * y[2]) % y[1];
    const int64_t n = o / (y[3] * y[2] * y[1]);
    for (int64_t r = 0; r < g.window[0]; ++r) {
      for (int64_t s = 0; s < g.window[1]; ++s) {
        const int64_t h = p * g.stride[0] - g.pad_begin[0] + r;
        const int64_t w = q * g.stride[1] - g.pad_begin[1] + s;
        if (h < 0 || h >= x[1] || w < 0 || w >= x[2]) continue;
        visit(static_cast<size_t>(o), static_cast<size_t>(((n * x[1] + h) * x[2] + w) * x[3] + c),
              r * g.window[1] + s);
      }
    }
  }
}

inline Dims pooled_dims(const PoolGeometry& g, const Dims& x) {
  Dims y = x;
  for (int axis = 0; axis < 2; ++axis) {
    y[1 + axis] =
        (x[1 + axis] + g.pad_begin[axis] + g.pad_end[axis] - g.window[axis]) / g.stride[axis] + 1;
  }
  return y;
}

}  // namespace assay::test
