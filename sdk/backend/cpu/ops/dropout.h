// The mask of a dropout, as kernels draw it.
#pragma once

#include <algorithm>
#include <cmath>

#include "sdk/backend/cpu/kernels/kernels.h"
#include "sdk/base/philox.h"

namespace assay::cpu {

// For `op` with rate, seed and stream; of element 0 on, in step 0.
template <class Op>
DropoutRange dropout_range(const Op& op) {
  const PhiloxKey key = philox_key(op.seed, op.stream);
  const double rate = op.rate;
  return {.key = {key[0], key[1]},
          .step = 0,
          .first = 0,
          // Words below rate * 2^32 are dropped.
          .drop_below = static_cast<uint32_t>(std::min(std::nearbyint(rate * 0x1p32), 0x1p32 - 1)),
          .scale = static_cast<float>(1.0 / (1.0 - rate))};
}

}  // namespace assay::cpu
