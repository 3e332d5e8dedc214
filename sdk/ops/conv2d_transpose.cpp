// Conv2dTranspose, whose result has the size that it is told: several give x when they are
// convolved with a stride.
#include "sdk/graph/grad_ctx.h"
#include "sdk/graph/infer_ctx.h"
#include "sdk/ops/cost.h"
#include "sdk/ops/joined_activation.h"

namespace assay {
void infer(const Conv2dTranspose& p, InferCtx& c) {
  c.require_inputs(2 + p.has_bias);
  c.require_data_type(0);
  c.require_dtype(1, c.x(0).dtype);
  const ConvGeometry& g = p.geometry;
  const Dims &x = c.x(0).dims, &w = c.x(1).dims, &y = p.y_dims;
  c.require(x.rank() == 4 && w.rank() == 4 && y.rank() == 4,
            "x, w and y_dims must be [N,P,Q,C], [C,R,S,K/groups] and [N,H,W,K], got ", x, ", ", w,
            " and ", y);
  c.require(g.groups > 0 && x[3] % g.groups == 0 && w[0] == x[3] && w[3] * g.groups == y[3] &&
                y[0] == x[0],
            "x ", x, ", w ", w, " and y_dims ", y, " disagree in images or channels");
  for (int axis = 0; axis < 2; ++axis) {
    c.require(g.stride[axis] > 0 && g.dilation[axis] > 0 && g.pad_begin[axis] >= 0 &&
                  g.pad_end[axis] >= 0,
              "stride and dilation must be positive, padding must not be negative");
    const int64_t room = y[1 + axis] + g.pad_begin[axis] + g.pad_end[axis] -
                         (g.dilation[axis] * (w[1 + axis] - 1) + 1);
    c.require(room >= 0 && room / g.stride[axis] + 1 == x[1 + axis], "conv2d of ", y, " with w ", w,
              " does not give ", x);
  }
  if (p.has_bias) {
    c.require_dims(2, {y[3]});
    c.require_dtype(2, DType::kF32);
  }
  c.y({c.x(0).dtype, y});
}

void grad(const Conv2dTranspose& p, GradCtx& c) {
  const ValueId dy = gradient_before(c, p.activation);
  const ValueType w = c.type(c.x(1));  // the filters' gradient is first, as that of Conv2d
  c.dx(1, c.emit1(Conv2dGradWeight{p.geometry, w.dims, w.dtype}, {dy, c.x(0)}));
  if (p.has_bias) c.dx(2, c.emit1(SumTo{c.type(c.x(2)).dims}, {dy}));
  // The adjoint of an adjoint is the convolution itself.
  if (c.wants(0)) c.dx(0, c.emit1(Conv2d{.geometry = p.geometry}, {dy, c.x(1)}));
}
NodeFacts facts(const Conv2dTranspose&, const NodeView& c) {
  return {.flops = conv2d_flops(c.x(0).dims, c.x(1).dims), .bytes = traffic_of(c)};
}

}  // namespace assay
