#include "sdk/graph/graph.h"

namespace assay {

void infer(const Cast& p, InferCtx& c) {
  c.require_inputs(1);
  c.require_data_type(0);
  c.require(p.dtype == DType::kF32 || p.dtype == DType::kBf16, "can cast to f32 or bf16, not ",
            p.dtype);
  c.y({p.dtype, c.x(0).dims});
}

void grad(const Cast&, GradCtx& c) { c.dx(0, c.emit1(Cast{c.type(c.x(0)).dtype}, {c.dy()})); }

}  // namespace assay
