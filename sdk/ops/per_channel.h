// What normalisations ask of their inputs.
#pragma once

#include "sdk/graph/infer_ctx.h"

namespace assay {

// Inputs first..last-1 must be f32 vectors with one number per channel of x.
inline void require_channels(const InferCtx& c, int first, int last, int64_t channels) {
  for (int i = first; i < last; ++i) {
    c.require_dims(i, {channels});
    c.require_dtype(i, DType::kF32);
  }
}

// x, input 0, has something to normalise.
inline void require_rows(const InferCtx& c) {
  const Dims& x = c.x(0).dims;
  c.require(x.numel() / x.back() > 1, "needs more than one value per channel to normalise, x is ",
            x);
}

}  // namespace assay
