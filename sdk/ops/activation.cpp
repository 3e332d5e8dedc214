#include "sdk/ops/no_gradient.h"

namespace assay {

void infer(const Activation& p, InferCtx& c) {
  c.require_inputs(1);
  c.require_data_type(0);
  c.require(p.kind != ActivationKind::kNone, "needs a kind");
  c.y(c.x(0));
}

void grad(const Activation& p, GradCtx& c) {
  const bool from_input = p.kind == ActivationKind::kGelu || p.kind == ActivationKind::kSwish;
  c.dx(0, c.emit1(ActivationGrad{p.kind}, {from_input ? c.x(0) : c.y(), c.dy()}));
}

void infer(const ActivationGrad& p, InferCtx& c) {
  c.require_inputs(2);
  c.require_data_type(0);
  c.require(c.x(0) == c.x(1), "saved tensor is ", c.x(0), ", gradient is ", c.x(1));
  c.y(c.x(0));
}
void grad(const ActivationGrad& p, GradCtx&) { no_gradient(p); }

}  // namespace assay
