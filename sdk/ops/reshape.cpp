#include "sdk/graph/graph.h"

namespace assay {

void infer(const Reshape& p, InferCtx& c) {
  c.require_inputs(1);
  c.require(p.dims.numel() == c.x(0).numel(), "cannot reshape ", c.x(0).dims, " (", c.x(0).numel(),
            " elements) to ", p.dims);
  c.y({c.x(0).dtype, p.dims}, 0);
}

void grad(const Reshape&, GradCtx& c) { c.dx(0, c.emit1(Reshape{c.type(c.x(0)).dims}, {c.dy()})); }

}  // namespace assay
