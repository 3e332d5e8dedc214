#include "sdk/graph/graph.h"

namespace assay {
namespace {

Dims dims_with_beside(const Conv2dTranspose& p, const InferCtx& c) {
  const int last = 2 + p.has_bias;
  c.require_dtype(last, c.x(0).dtype);
  const Dims& beside = c.x(last).dims;
  Dims y = p.y_dims;
  c.require(beside.rank() == 4 && beside[0] == y[0], "beside is ", beside, ", y_dims ", y);
  for (int axis = 0; axis < 2; ++axis) {
    c.require(p.crop[axis] >= 0 && y[1 + axis] <= beside[1 + axis] - p.crop[axis], "the ", y[1],
              " x ", y[2], " pixels at ", p.crop[0], ", ", p.crop[1], " do not lie inside ",
              beside);
  }
  y[3] += beside[3];
  return y;
}

}  // namespace

void infer(const Conv2dTranspose& p, InferCtx& c) {
  c.require_inputs(2 + p.has_bias + p.has_beside);
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
  c.y({c.x(0).dtype, p.has_beside ? dims_with_beside(p, c) : y});
}

namespace {

void grad_of_beside(const Conv2dTranspose& p, GradCtx& c, ValueId dy) {
  const int beside = 2 + p.has_bias;
  if (!c.wants(beside)) return;
  const Dims whole = c.type(c.x(beside)).dims;
  const Dims& y = p.y_dims;
  const ValueId part = c.emit1(Slice{{0, 0, 0, y[3]}, {y[0], y[1], y[2], whole[3]}}, {dy});
  c.dx(beside, c.emit1(SliceGrad{{0, p.crop[0], p.crop[1], 0}, whole}, {part}));
}

}  // namespace

void grad(const Conv2dTranspose& p, GradCtx& c) {
  ValueId dy = c.dy();
  if (p.has_beside) grad_of_beside(p, c, dy);
  if (p.activation != ActivationKind::kNone) {
    dy = c.emit1(ActivationGrad{p.activation, p.has_beside ? p.y_dims[3] : 0}, {c.y(), dy});
  } else if (p.has_beside) {
    dy = c.emit1(Slice{{0, 0, 0, 0}, p.y_dims}, {dy});
  }
  if (c.wants(0)) c.dx(0, c.emit1(Conv2d{.geometry = p.geometry}, {dy, c.x(1)}));
  const ValueType w = c.type(c.x(1));
  c.dx(1, c.emit1(Conv2dGradWeight{p.geometry, w.dims, w.dtype}, {dy, c.x(0)}));
  if (p.has_bias) c.dx(2, c.emit1(SumRows{}, {dy}));
}

}  // namespace assay
