// What operations count as, the same on all backends.
#pragma once

#include "sdk/base/dims.h"

namespace assay {

// Of the direct sum of a convolution of y [N,P,Q,K] with w [K,R,S,C/groups], whatever algorithm
// takes its place; the gradients have as many.
inline double conv2d_flops(const Dims& y, const Dims& w) {
  return 2.0 * static_cast<double>(y.numel()) * static_cast<double>(w[1] * w[2] * w[3]);
}

}  // namespace assay
