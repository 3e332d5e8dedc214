// Input, Parameter, StepScalar, Fill: values that come from outside the graph.
#include "sdk/graph/infer_ctx.h"
#include "sdk/ops/cost.h"

namespace assay {

void infer(const Input& p, InferCtx& c) {
  c.require_inputs(0);
  c.require(!p.name.empty(), "needs a name");
  c.y({p.dtype, p.dims});
}
NodeFacts facts(const Input&, const NodeView&) { return {}; }

void infer(const Parameter& p, InferCtx& c) {
  c.require_inputs(0);
  c.require(!p.name.empty(), "needs a name");
  c.y({p.dtype, p.dims});
}
NodeFacts facts(const Parameter&, const NodeView&) { return {}; }

void infer(const StepScalar& p, InferCtx& c) {
  c.require_inputs(0);
  c.y({p.kind == ScalarKind::kRandomStep ? DType::kI64 : DType::kF32, {}});
}
NodeFacts facts(const StepScalar&, const NodeView&) { return {}; }

void infer(const Fill& p, InferCtx& c) {
  c.require_inputs(0);
  c.y({DType::kF32, p.dims});
}
NodeFacts facts(const Fill&, const NodeView& c) { return {.bytes = traffic_of(c)}; }

}  // namespace assay
