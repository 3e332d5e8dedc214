// SoftmaxCrossEntropy, Softmax and TopKCorrect: rows of logits, mostly against labels.
#include "sdk/graph/grad_ctx.h"
#include "sdk/graph/infer_ctx.h"
#include "sdk/ops/cost.h"
#include "sdk/ops/no_gradient.h"

namespace assay {
namespace {

void require_logits_and_labels(const InferCtx& c) {
  c.require_data_type(0);
  c.require(c.x(0).dims.rank() == 2, "logits must be [N,C], got ", c.x(0).dims);
  c.require_dims(1, {c.x(0).dims[0]});
  c.require_dtype(1, DType::kI32);
}

}  // namespace

void infer(const SoftmaxCrossEntropy& p, InferCtx& c) {
  c.require_inputs(2);
  require_logits_and_labels(c);
  c.require(p.label_smoothing >= 0 && p.label_smoothing < 1,
            "label_smoothing must be in [0, 1), got ", p.label_smoothing);
  c.y({DType::kF32, {}});
}

void grad(const SoftmaxCrossEntropy& p, GradCtx& c) {
  c.dx(0, c.emit1(SoftmaxCrossEntropyGrad{p.label_smoothing, p.mean}, {c.x(0), c.x(1), c.dy()}));
}
NodeFacts facts(const SoftmaxCrossEntropy&, const NodeView& c) {
  return {.flops = kFlopsPerExponential * count_of(c.x(0)), .bytes = traffic_of(c)};
}

void infer(const SoftmaxCrossEntropyGrad&, InferCtx& c) {
  c.require_inputs(3);
  require_logits_and_labels(c);
  c.require_dims(2, {});
  c.require_dtype(2, DType::kF32);
  c.y(c.x(0));
}
void grad(const SoftmaxCrossEntropyGrad& p, GradCtx&) { no_gradient(p); }
NodeFacts facts(const SoftmaxCrossEntropyGrad&, const NodeView& c) {
  return {2 * kFlopsPerExponential * count_of(c.x(0)), traffic_of(c), {{0, 0}}};
}

void infer(const Softmax&, InferCtx& c) {
  c.require_inputs(1);
  c.require_data_type(0);
  c.require(c.x(0).dims.rank() == 2, "x must be [N,C], got ", c.x(0).dims);
  c.y({DType::kF32, c.x(0).dims});
}
void grad(const Softmax& p, GradCtx&) { no_gradient(p); }
NodeFacts facts(const Softmax&, const NodeView& c) {
  return {.flops = kFlopsPerExponential * count_of(c.x(0)), .bytes = traffic_of(c)};
}

void infer(const TopKCorrect& p, InferCtx& c) {
  c.require_inputs(2);
  require_logits_and_labels(c);
  c.require(p.k >= 1, "k must be at least 1, got ", p.k);
  c.y({DType::kF32, {}});
}
void grad(const TopKCorrect& p, GradCtx&) { no_gradient(p); }
NodeFacts facts(const TopKCorrect&, const NodeView& c) {
  return {.flops = 2 * count_of(c.x(0)), .bytes = traffic_of(c)};
}

}  // namespace assay
