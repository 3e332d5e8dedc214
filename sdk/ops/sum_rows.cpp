#include "sdk/ops/no_gradient.h"

namespace assay {

void infer(const SumRows&, InferCtx& c) {
  c.require_inputs(1);
  c.require_data_type(0);
  c.require(c.x(0).dims.rank() >= 1, "needs at least one axis");
  c.y({DType::kF32, {c.x(0).dims.back()}});
}
void grad(const SumRows& p, GradCtx&) { no_gradient(p); }

}  // namespace assay
