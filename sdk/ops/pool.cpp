// MaxPool, AvgPool and their gradients: one geometry, one shape rule.
#include "sdk/graph/grad_ctx.h"
#include "sdk/graph/infer_ctx.h"
#include "sdk/ops/cost.h"
#include "sdk/ops/pooled_dims.h"

namespace assay {

void infer(const MaxPool& p, InferCtx& c) {
  c.require_inputs(1);
  c.require_data_type(0);
  c.y({c.x(0).dtype, pooled_dims(c, p.geometry, c.x(0).dims)});
}
void grad(const MaxPool& p, GradCtx& c) {
  c.dx(0, c.emit1(MaxPoolGrad{p.geometry}, {c.x(0), c.dy()}));
}
NodeFacts facts(const MaxPool& p, const NodeView& c) {
  return {.flops = taps_of(p.geometry) * count_of(c.y()), .bytes = traffic_of(c)};
}

void infer(const MaxPoolGrad& p, InferCtx& c) {
  c.require_inputs(2 + p.has_addend);
  c.require_data_type(0);
  const ValueType y{c.x(0).dtype, pooled_dims(c, p.geometry, c.x(0).dims)};
  c.require(c.x(1) == y, "dy is ", c.x(1), ", expected ", y);
  if (p.has_addend) c.require(c.x(2) == c.x(0), "addend is ", c.x(2), ", expected ", c.x(0));
  c.y(c.x(0));
}
NodeFacts facts(const MaxPoolGrad& p, const NodeView& c) {
  return {.flops = 2 * taps_of(p.geometry) * count_of(c.x(1)), .bytes = traffic_of(c)};
}

void infer(const AvgPool& p, InferCtx& c) {
  c.require_inputs(1);
  c.require_data_type(0);
  c.y({c.x(0).dtype, pooled_dims(c, p.geometry, c.x(0).dims)});
}
void grad(const AvgPool& p, GradCtx& c) {
  c.dx(0, c.emit1(AvgPoolGrad{p.geometry, c.type(c.x(0)).dims}, {c.dy()}));
}
NodeFacts facts(const AvgPool& p, const NodeView& c) {
  return {.flops = taps_of(p.geometry) * count_of(c.y()), .bytes = traffic_of(c)};
}

void infer(const AvgPoolGrad& p, InferCtx& c) {
  c.require_inputs(1);
  c.require_data_type(0);
  c.require_dims(0, pooled_dims(c, p.geometry, p.x_dims));
  c.y({c.x(0).dtype, p.x_dims});
}
NodeFacts facts(const AvgPoolGrad& p, const NodeView& c) {
  return {.flops = 2 * taps_of(p.geometry) * count_of(c.x(0)), .bytes = traffic_of(c)};
}

}  // namespace assay
