// What a convolution's window covers, as own kernels ask for it.
#pragma once

#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/graph/ops.h"

namespace assay::cpu {

// x [N,H,W,C], w [K,R,S,C], y [N,P,Q,K].
inline PanelWindows windows_of(const ConvGeometry& g, const Dims& x, const Dims& w, const Dims& y) {
  return {.h = x[1],
          .w = x[2],
          .p = y[1],
          .q = y[2],
          .r = w[1],
          .s = w[2],
          .stride = {g.stride[0], g.stride[1]},
          .dilation = {g.dilation[0], g.dilation[1]},
          .pad = {g.pad_begin[0], g.pad_begin[1]}};
}

}  // namespace assay::cpu
