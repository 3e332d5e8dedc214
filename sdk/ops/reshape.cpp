#include "sdk/graph/grad_ctx.h"
#include "sdk/graph/infer_ctx.h"
#include "sdk/ops/cost.h"

namespace assay {

void infer(const Reshape& p, InferCtx& c) {
  c.require_inputs(1);
  c.require(p.dims.numel() == c.x(0).numel(), "cannot reshape ", c.x(0).dims, " (", c.x(0).numel(),
            " elements) to ", p.dims);
  const auto layout = reshape_layout(c.layout(0), c.x(0).dims, p.dims);
  c.view({c.x(0).dtype, p.dims}, layout ? *layout : dense_layout(p.dims));  // of a copy
}

void grad(const Reshape&, GradCtx& c) { c.dx(0, c.emit1(Reshape{c.type(c.x(0)).dims}, {c.dy()})); }
NodeFacts facts(const Reshape&, const NodeView&) { return {}; }

}  // namespace assay
