#include "sdk/graph/graph.h"

namespace assay {

void infer(const Cast& p, InferCtx& c) {
  c.require_inputs(1);
  c.require_data_type(0);
  c.require(is_data_type(p.dtype), "can cast to f32, bf16 or f16, not ", p.dtype);
  c.y({p.dtype, c.x(0).dims});
}

void grad(const Cast&, GradCtx& c) { c.dx(0, c.emit1(Cast{c.type(c.x(0)).dtype}, {c.dy()})); }

}  // namespace assay
