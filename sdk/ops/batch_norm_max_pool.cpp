// BatchNormMaxPool and its gradient: types and cost.
#include "sdk/graph/infer_ctx.h"
#include "sdk/ops/cost.h"
#include "sdk/ops/per_channel.h"
#include "sdk/ops/pooled_dims.h"

namespace assay {
namespace {

// Of images x: the types of their maxima and of these' places. The inputs from 1 to `last` have a
// number for each channel.
struct Pooled {
  ValueType maxima, places;
};
Pooled require_images(const InferCtx& c, const PoolGeometry& geometry, int last) {
  c.require_data_type(0);
  const Dims y = pooled_dims(c, geometry, c.x(0).dims);
  require_rows(c);
  const int64_t taps = geometry.window[0] * geometry.window[1];
  c.require(taps <= BatchNormMaxPool::kMostTaps, "has windows of at most ",
            BatchNormMaxPool::kMostTaps, " elements, got ", taps);
  require_channels(c, 1, last + 1, y.back());
  return {{c.x(0).dtype, y}, {DType::kU8, y}};
}

}  // namespace

void infer(const BatchNormMaxPool& p, InferCtx& c) {
  c.require_inputs(3);
  const Pooled pooled = require_images(c, p.geometry, 2);
  const ValueType channels = c.x(1);
  c.y(pooled.maxima);
  c.y(channels);
  c.y(channels);
  c.y(pooled.maxima);
  c.y(pooled.places);
}
NodeFacts facts(const BatchNormMaxPool& p, const NodeView& c) {
  return {.flops = 4 * count_of(c.x(0)) + 4 * taps_of(p.geometry) * count_of(c.y()),
          .bytes = traffic_of(c)};
}

void infer(const BatchNormMaxPoolGrad& p, InferCtx& c) {
  c.require_inputs(8);
  const Pooled pooled = require_images(c, p.geometry, 4);
  for (const int i : {5, 6})
    c.require(c.x(i) == pooled.maxima, i == 5 ? "dy" : "peaks", " is ", c.x(i), ", expected ",
              pooled.maxima);
  c.require(c.x(7) == pooled.places, "winners is ", c.x(7), ", expected ", pooled.places);
  const ValueType x = c.x(0), channels = c.x(1);
  c.y(x);
  c.y(channels);
  c.y(channels);
}
NodeFacts facts(const BatchNormMaxPoolGrad& p, const NodeView& c) {
  return {.flops = 7 * count_of(c.x(0)) + 2 * taps_of(p.geometry) * count_of(c.x(5)),
          .bytes = traffic_of(c)};
}

}  // namespace assay
