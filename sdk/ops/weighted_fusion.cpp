// WeightedFusion and its gradient: types, gradient and cost.
#include "sdk/graph/grad_ctx.h"
#include "sdk/graph/infer_ctx.h"
#include "sdk/ops/cost.h"

namespace assay {
namespace {

Dims half_of(const Dims& image) { return {image[0], image[1] / 2, image[2] / 2, image[3]}; }

bool is_even(const Dims& image) { return image[1] % 2 == 0 && image[2] % 2 == 0; }

// Of the images 1 to `count` the type of the largest, which the others must fit.
ValueType fused_type(const InferCtx& c, int count, ActivationKind activation) {
  c.require(count >= 2 && count <= kMostFusedImages, "fuses 2 to ", kMostFusedImages,
            " images, got ", count);
  c.require(activation == ActivationKind::kNone || activation == ActivationKind::kSwish,
            "activation must be none or swish");
  c.require_dtype(0, DType::kF32);
  c.require_dims(0, {count});
  c.require_data_type(1);
  ValueType y = c.x(1);
  c.require(y.dims.rank() == 4, "images must be [N,H,W,C], got ", y.dims);
  for (int i = 2; i <= count; ++i) {
    if (c.x(i).numel() > y.numel()) y = c.x(i);
  }
  for (int i = 1; i <= count; ++i) {
    const ValueType half{y.dtype, half_of(y.dims)};
    c.require(c.x(i) == y || (is_even(y.dims) && c.x(i) == half), "image ", i, " is ", c.x(i),
              ", the largest ", y, ": images are of one size, or of half of it");
  }
  return y;
}

}  // namespace

void infer(const WeightedFusion& p, InferCtx& c) {
  c.require_inputs(1 + 2, 1 + kMostFusedImages);
  c.y(fused_type(c, c.n() - 1, p.activation));
}
void grad(const WeightedFusion& p, GradCtx& c) {
  std::vector<ValueId> inputs;
  for (int i = 0; i < c.n(); ++i) inputs.push_back(c.x(i));
  inputs.push_back(c.dy());
  const auto d = c.emit(WeightedFusionGrad{p.epsilon, p.activation}, inputs);
  for (int i = 0; i < c.n(); ++i) c.dx(i, d[static_cast<size_t>(i)]);
}
NodeFacts facts(const WeightedFusion& p, const NodeView& c) {
  const double per_element =
      2.0 * (c.n_inputs() - 1) + (p.activation == ActivationKind::kNone ? 0 : kFlopsPerExponential);
  NodeFacts facts{per_element * count_of(c.y()), traffic_of(c)};
  for (int i = 1; i < c.n_inputs(); ++i) {
    if (c.x(i) == c.y()) facts.in_place.push_back({0, i});
  }
  return facts;
}

void infer(const WeightedFusionGrad& p, InferCtx& c) {
  c.require_inputs(2 + 2, 2 + kMostFusedImages);
  const int count = c.n() - 2;
  const ValueType y = fused_type(c, count, p.activation);
  c.require(c.x(count + 1) == y, "dy is ", c.x(count + 1), ", expected ", y);
  for (int i = 0; i <= count; ++i) c.y(c.x(i));
}
NodeFacts facts(const WeightedFusionGrad& p, const NodeView& c) {
  const int count = c.n_inputs() - 2;
  const double per_element =
      5.0 * count + (p.activation == ActivationKind::kNone ? 0 : kFlopsPerExponential);
  NodeFacts facts{per_element * count_of(c.x(count + 1)), traffic_of(c)};
  for (int i = 1; i <= count; ++i) {
    facts.in_place.push_back({i, i});
    if (c.x(i) == c.x(count + 1)) facts.in_place.push_back({i, count + 1});
  }
  return facts;
}

}  // namespace assay
