// SoftTargetCrossEntropy, SoftDiceLoss and their gradients: losses of segmentation.
#include "sdk/graph/grad_ctx.h"
#include "sdk/graph/infer_ctx.h"
#include "sdk/ops/cost.h"

namespace assay {
namespace {

void require_logits_and_target(const InferCtx& c) {
  c.require_data_type(0);
  c.require(c.x(0).dims.rank() >= 2, "logits must be [N,...,C], got ", c.x(0).dims);
  c.require_dims(1, c.x(0).dims);
  c.require_dtype(1, DType::kF32);
}

void require_scalar(const InferCtx& c, int i) {
  c.require_dims(i, {});
  c.require_dtype(i, DType::kF32);
}

Dims sums_dims(const Dims& logits) { return {logits[0], 3, logits.back()}; }

}  // namespace

void infer(const SoftTargetCrossEntropy&, InferCtx& c) {
  c.require_inputs(2);
  require_logits_and_target(c);
  c.y({DType::kF32, {}});
}
void grad(const SoftTargetCrossEntropy& p, GradCtx& c) {
  c.dx(0, c.emit1(SoftTargetCrossEntropyGrad{p.mean}, {c.x(0), c.x(1), c.dy()}));
}
NodeFacts facts(const SoftTargetCrossEntropy&, const NodeView& c) {
  return {.flops = kFlopsPerExponential * count_of(c.x(0)), .bytes = traffic_of(c)};
}

void infer(const SoftTargetCrossEntropyGrad&, InferCtx& c) {
  c.require_inputs(3);
  require_logits_and_target(c);
  require_scalar(c, 2);
  c.y(c.x(0));
}
NodeFacts facts(const SoftTargetCrossEntropyGrad&, const NodeView& c) {
  return {2 * kFlopsPerExponential * count_of(c.x(0)), traffic_of(c), {{0, 0}}};
}

void infer(const SoftDiceLoss& p, InferCtx& c) {
  c.require_inputs(2);
  require_logits_and_target(c);
  c.require(p.epsilon > 0, "epsilon must be positive, got ", p.epsilon);
  c.y({DType::kF32, {}});
  c.y({DType::kF32, sums_dims(c.x(0).dims)});
}
void grad(const SoftDiceLoss& p, GradCtx& c) {
  c.dx(0, c.emit1(SoftDiceLossGrad{p.epsilon, p.mean}, {c.x(0), c.x(1), c.y(1), c.dy()}));
}
NodeFacts facts(const SoftDiceLoss&, const NodeView& c) {
  return {.flops = kFlopsPerExponential * count_of(c.x(0)), .bytes = traffic_of(c)};
}

void infer(const SoftDiceLossGrad&, InferCtx& c) {
  c.require_inputs(4);
  require_logits_and_target(c);
  c.require_dims(2, sums_dims(c.x(0).dims));
  c.require_dtype(2, DType::kF32);
  require_scalar(c, 3);
  c.y(c.x(0));
}
NodeFacts facts(const SoftDiceLossGrad&, const NodeView& c) {
  return {3 * kFlopsPerExponential * count_of(c.x(0)), traffic_of(c), {{0, 0}}};
}

}  // namespace assay
