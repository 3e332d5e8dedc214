#include "sdk/graph/grad_ctx.h"
#include "sdk/graph/infer_ctx.h"
#include "sdk/ops/cost.h"

namespace assay {

void infer(const Dropout& p, InferCtx& c) {
  c.require_inputs(2);
  c.require_data_type(0);
  c.require(p.rate >= 0 && p.rate < 1, "rate must be in [0, 1), got ", p.rate);
  c.require_dtype(1, DType::kI64);
  c.require_dims(1, {});
  c.y(c.x(0));
}

void grad(const Dropout& p, GradCtx& c) { c.dx(0, c.emit1(p, {c.dy(), c.x(1)})); }
NodeFacts facts(const Dropout&, const NodeView& c) {
  return {count_of(c.y()), traffic_of(c), {{0, 0}}};
}

}  // namespace assay
