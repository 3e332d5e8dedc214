// Input, Parameter, StepScalar, Fill: values that come from outside the graph.
#include "sdk/graph/grad_ctx.h"
#include "sdk/graph/infer_ctx.h"
#include "sdk/ops/cost.h"
#include "sdk/ops/no_gradient.h"

namespace assay {

void infer(const Input& p, InferCtx& c) {
  c.require_inputs(0);
  c.require(!p.name.empty(), "needs a name");
  c.y({p.dtype, p.dims});
}
void grad(const Input& p, GradCtx&) { no_gradient(p); }
NodeFacts facts(const Input&, const NodeView&) { return {}; }

void infer(const Parameter& p, InferCtx& c) {
  c.require_inputs(0);
  c.require(!p.name.empty(), "needs a name");
  c.y({p.dtype, p.dims});
}
void grad(const Parameter& p, GradCtx&) { no_gradient(p); }
NodeFacts facts(const Parameter&, const NodeView&) { return {}; }

void infer(const StepScalar& p, InferCtx& c) {
  c.require_inputs(0);
  c.y({p.kind == ScalarKind::kRandomStep ? DType::kI64 : DType::kF32, {}});
}
void grad(const StepScalar& p, GradCtx&) { no_gradient(p); }
NodeFacts facts(const StepScalar&, const NodeView&) { return {}; }

void infer(const Fill& p, InferCtx& c) {
  c.require_inputs(0);
  c.y({DType::kF32, p.dims});
}
void grad(const Fill& p, GradCtx&) { no_gradient(p); }
NodeFacts facts(const Fill&, const NodeView& c) { return {.bytes = traffic_of(c)}; }

}  // namespace assay
