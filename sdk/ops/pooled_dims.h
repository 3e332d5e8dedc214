// What pooling makes of the shape of images, and how many elements a window has.
#pragma once

#include "sdk/graph/infer_ctx.h"

namespace assay {

// [N,P,Q,C] of x [N,H,W,C]; a geometry that does not fit x is an error of c's node.
inline Dims pooled_dims(const InferCtx& c, const PoolGeometry& g, const Dims& x) {
  c.require(x.rank() == 4, "x must be [N,H,W,C], got ", x);
  Dims y = x;
  for (int axis = 0; axis < 2; ++axis) {
    c.require(g.window[axis] > 0 && g.stride[axis] > 0, "window and stride must be positive");
    c.require(g.pad_begin[axis] >= 0 && g.pad_begin[axis] < g.window[axis] &&
                  g.pad_end[axis] >= 0 && g.pad_end[axis] < g.window[axis],
              "padding must be smaller than the window, or a window would see no element");
    const int64_t padded = x[1 + axis] + g.pad_begin[axis] + g.pad_end[axis];
    c.require(padded >= g.window[axis], "window of ", g.window[axis], " is larger than the padded ",
              axis == 0 ? "height " : "width ", padded);
    y[1 + axis] = (padded - g.window[axis]) / g.stride[axis] + 1;
  }
  return y;
}

inline double taps_of(const PoolGeometry& g) {
  return static_cast<double>(g.window[0] * g.window[1]);
}

}  // namespace assay
