// SigmoidCrossEntropy and its gradient: numbers against yes, no or nothing.
#include "sdk/graph/grad_ctx.h"
#include "sdk/graph/infer_ctx.h"
#include "sdk/ops/cost.h"

namespace assay {
namespace {

void require_x_and_target(const InferCtx& c) {
  c.require_data_type(0);
  c.require(c.x(0).dims.rank() == 1, "x must be [N], got ", c.x(0).dims);
  c.require_dtype(1, DType::kI32);
  c.require_dims(1, c.x(0).dims);
}

}  // namespace

void infer(const SigmoidCrossEntropy& p, InferCtx& c) {
  c.require_inputs(2);
  require_x_and_target(c);
  c.require(p.epsilon >= 0, "epsilon must be at least 0, got ", p.epsilon);
  c.y({DType::kF32, {}});
  c.y({DType::kF32, {}});
}

void grad(const SigmoidCrossEntropy& p, GradCtx& c) {
  c.dx(0, c.emit1(SigmoidCrossEntropyGrad{p.epsilon}, {c.x(0), c.x(1), c.dy(), c.y(1)}));
}
NodeFacts facts(const SigmoidCrossEntropy&, const NodeView& c) {
  return {.flops = kFlopsPerExponential * count_of(c.x(0)), .bytes = traffic_of(c)};
}

void infer(const SigmoidCrossEntropyGrad&, InferCtx& c) {
  c.require_inputs(4);
  require_x_and_target(c);
  for (const int i : {2, 3}) {
    c.require_dims(i, {});
    c.require_dtype(i, DType::kF32);
  }
  c.y(c.x(0));
}
NodeFacts facts(const SigmoidCrossEntropyGrad&, const NodeView& c) {
  return {kFlopsPerExponential * count_of(c.x(0)), traffic_of(c), {{0, 0}}};
}

}  // namespace assay
