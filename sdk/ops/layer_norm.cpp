// LayerNorm and its gradient: types, gradient and cost. Numbers by channel and by row are f32
// whatever the type of the data.
#include "sdk/graph/grad_ctx.h"
#include "sdk/graph/infer_ctx.h"
#include "sdk/ops/cost.h"
#include "sdk/ops/random_step.h"

namespace assay {
namespace {

Dims rows_of(const Dims& x) { return Dims(x.span().first(static_cast<size_t>(x.rank()) - 1)); }

void require_rate(const InferCtx& c, float rate) {
  c.require(rate >= 0 && rate < 1, "rate must be in [0, 1), got ", rate);
}

void require_f32(const InferCtx& c, int input, const Dims& dims) {
  c.require_dtype(input, DType::kF32);
  c.require_dims(input, dims);
}

}  // namespace

void infer(const LayerNorm& p, InferCtx& c) {
  c.require_inputs(p.step_input() + (p.rate > 0));
  c.require_data_type(0);
  require_rate(c, p.rate);
  const ValueType& x = c.x(0);
  c.require(x.dims.rank() >= 2, "x must be [..., C], got ", x.dims);
  require_f32(c, 1, {x.dims.back()});
  require_f32(c, 2, {x.dims.back()});
  if (p.has_residual) c.require(c.x(3) == x, "residual is ", c.x(3), ", x is ", x);
  if (p.rate > 0) require_step(c, p.step_input());
  c.y(x);
  c.y({DType::kF32, rows_of(x.dims)});
  c.y({DType::kF32, rows_of(x.dims)});
  if (p.keeps_z()) c.y(x);
}

void grad(const LayerNorm& p, GradCtx& c) {
  std::vector<ValueId> inputs{p.keeps_z() ? c.y(3) : c.x(0), c.x(1), c.y(1), c.y(2), c.dy()};
  if (p.rate > 0) inputs.push_back(c.x(p.step_input()));
  const auto d = c.emit(LayerNormGrad{p.rate, p.seed, p.stream}, inputs);
  c.dx(0, p.rate > 0 ? d[3] : d[0]);
  c.dx(1, d[1]);
  c.dx(2, d[2]);
  if (p.has_residual) c.dx(3, d[0]);
}

NodeFacts facts(const LayerNorm& p, const NodeView& c) {
  NodeFacts facts{(8.0 + p.has_residual) * count_of(c.x(0)), traffic_of(c), {{0, 0}}};
  if (p.keeps_z()) facts.in_place.push_back({3, 0});
  if (p.has_residual) facts.in_place.push_back({3, 3});
  return facts;
}

void infer(const LayerNormGrad& p, InferCtx& c) {
  c.require_inputs(p.addend_input() + p.has_addend);
  c.require_data_type(0);
  require_rate(c, p.rate);
  const ValueType& z = c.x(0);
  c.require(z.dims.rank() >= 2, "z must be [..., C], got ", z.dims);
  require_f32(c, 1, {z.dims.back()});
  require_f32(c, 2, rows_of(z.dims));
  require_f32(c, 3, rows_of(z.dims));
  c.require(c.x(4) == z, "dy is ", c.x(4), ", z is ", z);
  if (p.rate > 0) require_step(c, 5);
  if (p.has_addend)
    c.require(c.x(p.addend_input()) == z, "addend is ", c.x(p.addend_input()), ", z is ", z);
  const ValueType channels{DType::kF32, {z.dims.back()}};
  c.y(z);
  c.y(channels);
  c.y(channels);
  if (p.rate > 0) c.y(z);
  if (p.keep_sums) c.y(channels);
}
NodeFacts facts(const LayerNormGrad& p, const NodeView& c) {
  NodeFacts facts{13.0 * count_of(c.x(0)), traffic_of(c), {{0, 0}, {0, 4}}};
  if (p.has_addend) facts.in_place.push_back({0, p.addend_input()});
  return facts;
}

}  // namespace assay
