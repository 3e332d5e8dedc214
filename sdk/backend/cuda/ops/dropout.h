#pragma once

#include "sdk/backend/cuda/kernels/kernels.h"
#include "sdk/backend/dropout_mask.h"

namespace assay::cuda {

template <class Op>
kernels::DropoutArgs dropout_args(const Op& op) {
  const DropoutMask mask = dropout_mask(op);
  return {.key = {mask.key[0], mask.key[1]}, .drop_below = mask.drop_below, .scale = mask.scale};
}

}  // namespace assay::cuda
