// SoftmaxCrossEntropy, Softmax, TopK and TopKCorrect: rows of logits, mostly against labels.
#include "sdk/graph/grad_ctx.h"
#include "sdk/graph/infer_ctx.h"
#include "sdk/ops/cost.h"

namespace assay {
namespace {

void require_logits_and_labels(const InferCtx& c) {
  c.require_data_type(0);
  c.require(c.x(0).dims.rank() == 2, "logits must be [N,C], got ", c.x(0).dims);
  c.require_dims(1, {c.x(0).dims[0]});
  c.require_dtype(1, DType::kI32);
}

template <class Op>
void require_classes(const Op& p, const InferCtx& c) {
  const int64_t columns = c.x(0).dims[1];
  c.require(p.classes >= 0 && p.classes <= columns, "classes must be in [0, ", columns,
            "], the columns of the logits, got ", p.classes);
}

}  // namespace

void infer(const SoftmaxCrossEntropy& p, InferCtx& c) {
  c.require_inputs(2);
  require_logits_and_labels(c);
  require_classes(p, c);
  c.require(p.label_smoothing >= 0 && p.label_smoothing < 1,
            "label_smoothing must be in [0, 1), got ", p.label_smoothing);
  c.require(p.epsilon >= 0, "epsilon must be at least 0, got ", p.epsilon);
  c.y({DType::kF32, {}});
  if (p.reduction != Reduction::kCountedMean) return;
  c.y({DType::kF32, {}});
  c.y({DType::kF32, c.x(1).dims});
}

void grad(const SoftmaxCrossEntropy& p, GradCtx& c) {
  std::vector<ValueId> inputs{c.x(0), c.x(1), c.dy()};
  if (p.reduction == Reduction::kCountedMean) inputs.push_back(c.y(1));
  c.dx(0, c.emit(SoftmaxCrossEntropyGrad{p.label_smoothing, p.reduction, p.epsilon, p.classes},
                 inputs)[0]);
}
NodeFacts facts(const SoftmaxCrossEntropy&, const NodeView& c) {
  return {.flops = kFlopsPerExponential * count_of(c.x(0)), .bytes = traffic_of(c)};
}

void infer(const SoftmaxCrossEntropyGrad& p, InferCtx& c) {
  c.require_inputs(3 + (p.reduction == Reduction::kCountedMean));
  require_logits_and_labels(c);
  require_classes(p, c);
  for (int i = 2; i < c.n(); ++i) {
    c.require_dims(i, {});
    c.require_dtype(i, DType::kF32);
  }
  c.y(c.x(0));
}
NodeFacts facts(const SoftmaxCrossEntropyGrad&, const NodeView& c) {
  return {2 * kFlopsPerExponential * count_of(c.x(0)), traffic_of(c), {{0, 0}}};
}

void infer(const Softmax&, InferCtx& c) {
  c.require_inputs(1);
  c.require_data_type(0);
  c.require(c.x(0).dims.rank() == 2, "x must be [N,C], got ", c.x(0).dims);
  c.y({DType::kF32, c.x(0).dims});
}
NodeFacts facts(const Softmax&, const NodeView& c) {
  return {.flops = kFlopsPerExponential * count_of(c.x(0)), .bytes = traffic_of(c)};
}

void infer(const TopK& p, InferCtx& c) {
  c.require_inputs(1);
  c.require_data_type(0);
  c.require(c.x(0).dims.rank() == 2, "x must be [N,C], got ", c.x(0).dims);
  c.require(p.k >= 1 && p.k <= c.x(0).dims[1], "k must be 1 to ", c.x(0).dims[1],
            ", the columns of x, got ", p.k);
  const Dims dims{c.x(0).dims[0], p.k};
  c.y({DType::kF32, dims});
  c.y({DType::kI32, dims});
}
NodeFacts facts(const TopK&, const NodeView& c) {
  return {.flops = 2 * count_of(c.x(0)), .bytes = traffic_of(c)};
}

void infer(const TopKCorrect& p, InferCtx& c) {
  c.require_inputs(2);
  require_logits_and_labels(c);
  c.require(p.k >= 1, "k must be at least 1, got ", p.k);
  c.y({DType::kF32, {}});
}
NodeFacts facts(const TopKCorrect&, const NodeView& c) {
  return {.flops = 2 * count_of(c.x(0)), .bytes = traffic_of(c)};
}

}  // namespace assay
