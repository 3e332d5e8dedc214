// SqueezedBatchNorm and its gradient: types and cost.
#include "sdk/graph/infer_ctx.h"
#include "sdk/ops/cost.h"
#include "sdk/ops/per_channel.h"

namespace assay {
namespace {

// x is images; the inputs from 1 to `last` have a number for each of its channels.
void require_images(const InferCtx& c, int last) {
  c.require_data_type(0);
  const Dims& x = c.x(0).dims;
  c.require(x.rank() == 4, "x must be [N,H,W,C], got ", x);
  require_rows(c);
  require_channels(c, 1, last + 1, x[3]);
}

// A number for each channel of each image.
ValueType squeezed(const ValueType& x) { return {x.dtype, {x.dims[0], 1, 1, x.dims[3]}}; }

}  // namespace

void infer(const SqueezedBatchNorm&, InferCtx& c) {
  c.require_inputs(3);
  require_images(c, 2);
  const ValueType channels = c.x(1);
  c.y(squeezed(c.x(0)));
  c.y(c.x(0));
  c.y(channels);
  c.y(channels);
}
NodeFacts facts(const SqueezedBatchNorm&, const NodeView& c) {
  return {(10.0 + kFlopsPerExponential) * count_of(c.x(0)), traffic_of(c), {{1, 0}}};
}

void infer(const SqueezedBatchNormGrad&, InferCtx& c) {
  c.require_inputs(8);
  require_images(c, 4);
  const ValueType x = c.x(0), channels = c.x(1);
  c.require(c.x(5) == x, "dproduct is ", c.x(5), ", x is ", x);
  for (const int i : {6, 7})
    c.require(c.x(i) == squeezed(x), i == 6 ? "gate" : "dsqueezed", " is ", c.x(i), ", expected ",
              squeezed(x));
  c.y(x);
  c.y(channels);
  c.y(channels);
}
NodeFacts facts(const SqueezedBatchNormGrad&, const NodeView& c) {
  return {(13.0 + 2.0 * kFlopsPerExponential) * count_of(c.x(0)), traffic_of(c), {{0, 0}, {0, 5}}};
}

}  // namespace assay
