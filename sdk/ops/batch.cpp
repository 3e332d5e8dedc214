// ImageFromBytes, MixRows, MixTargets, CountTargets: between a batch as it is given and what a
// network reads.
#include "sdk/graph/infer_ctx.h"
#include "sdk/ops/cost.h"

namespace assay {

void infer(const ImageFromBytes& p, InferCtx& c) {
  c.require_inputs(2);
  c.require_dtype(0, DType::kU8);
  const Dims& x = c.x(0).dims;
  c.require(x.rank() == 4, "x must be [N,H,W,C], got ", x);
  c.require(x[3] >= 1 && x[3] <= p.channels && p.channels <= 4, "makes ", p.channels,
            " channels from ", x[3], ": at most 4, and no fewer than there are");
  c.require_dtype(1, DType::kI32);
  c.require_dims(1, {x[0], 4});
  for (const float stddev : p.stddev) c.require(stddev > 0, "stddev must be above 0, got ", stddev);
  c.y({DType::kF32, {x[0], x[1], x[2], p.channels}});
}
NodeFacts facts(const ImageFromBytes&, const NodeView& c) { return {.bytes = traffic_of(c)}; }

namespace {

void require_weights(const InferCtx& c, int64_t rows) {
  c.require_dtype(1, DType::kF32);
  c.require_dims(1, {rows});
}

}  // namespace

void infer(const MixRows&, InferCtx& c) {
  c.require_inputs(2);
  c.require_dtype(0, DType::kF32);
  c.require(c.x(0).dims.rank() >= 1, "x must have rows");
  require_weights(c, c.x(0).dims[0]);
  c.y(c.x(0));
}
NodeFacts facts(const MixRows&, const NodeView& c) {
  return {.flops = 3 * count_of(c.x(0)), .bytes = traffic_of(c)};
}

void infer(const MixTargets& p, InferCtx& c) {
  c.require_inputs(2);
  c.require_dtype(0, DType::kI32);
  const Dims& labels = c.x(0).dims;
  c.require(labels.rank() == 1, "labels must be [N], got ", labels);
  c.require(p.classes >= 1, "needs classes");
  c.require(p.label_smoothing >= 0 && p.label_smoothing < 1,
            "label_smoothing must be in [0, 1), got ", p.label_smoothing);
  require_weights(c, labels[0]);
  c.y({DType::kF32, {labels[0], p.classes}});
}
NodeFacts facts(const MixTargets&, const NodeView& c) {
  return {.flops = 4 * count_of(c.x(0)), .bytes = traffic_of(c)};
}

void infer(const CountTargets&, InferCtx& c) {
  c.require_inputs(1);
  const ValueType& x = c.x(0);
  c.require(x.dtype == DType::kI32 || (x.dtype == DType::kF32 && x.dims.rank() >= 1),
            "x must be i32, or f32 with rows, got ", x);
  c.y({DType::kF32, {}});
}
NodeFacts facts(const CountTargets&, const NodeView& c) {
  return {.flops = count_of(c.x(0)), .bytes = traffic_of(c)};
}

}  // namespace assay
