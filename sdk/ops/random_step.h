// What an operation with random draws is given beside its key: the number of the step.
#pragma once

#include "sdk/graph/infer_ctx.h"

namespace assay {

inline void require_step(const InferCtx& c, int input) {
  c.require_dtype(input, DType::kI64);
  c.require_dims(input, {});
}

}  // namespace assay
