// The mask of a dropout, as the kernels of every device draw it.
#pragma once

#include <algorithm>
#include <cmath>

#include "sdk/base/philox.h"

namespace assay {

struct DropoutMask {
  PhiloxKey key;
  uint32_t drop_below;  // words below rate * 2^32 are dropped
  float scale;
};

// For `op` with rate, seed and stream.
template <class Op>
DropoutMask dropout_mask(const Op& op) {
  const double rate = op.rate;
  return {.key = philox_key(op.seed, op.stream),
          .drop_below = static_cast<uint32_t>(std::min(std::nearbyint(rate * 0x1p32), 0x1p32 - 1)),
          .scale = static_cast<float>(1.0 / (1.0 - rate))};
}

}  // namespace assay
