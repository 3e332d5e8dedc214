#pragma once

#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/backend/dropout_mask.h"

namespace assay::cpu {

// From element 0 on, in step 0.
template <class Op>
DropoutRange dropout_range(const Op& op) {
  const DropoutMask mask = dropout_mask(op);
  return {.key = {mask.key[0], mask.key[1]},
          .step = 0,
          .first = 0,
          .drop_below = mask.drop_below,
          .scale = mask.scale};
}

}  // namespace assay::cpu
