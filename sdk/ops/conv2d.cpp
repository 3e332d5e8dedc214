// Conv2d and its two gradients: types, gradient and cost by one rule of geometry.
#include "sdk/graph/grad_ctx.h"
#include "sdk/graph/infer_ctx.h"
#include "sdk/ops/cost.h"
#include "sdk/ops/joined_activation.h"

namespace assay {
namespace {

// How many windows lie inside the padded size.
int64_t output_size(const ConvGeometry& g, int axis, int64_t size, int64_t window) {
  const int64_t reach = g.dilation[axis] * (window - 1) + 1;
  return (size + g.pad_begin[axis] + g.pad_end[axis] - reach) / g.stride[axis] + 1;
}

void require_geometry(const InferCtx& c, const ConvGeometry& g, const Dims& x, const Dims& w) {
  c.require(x.rank() == 4 && w.rank() == 4, "x and w must be [N,H,W,C] and [K,R,S,C/groups], got ",
            x, " and ", w);
  c.require(g.groups > 0 && x[3] % g.groups == 0 && w[0] % g.groups == 0, g.groups,
            " groups must divide the ", x[3], " input and ", w[0], " output channels");
  c.require(w[3] * g.groups == x[3], "w ", w, " with ", g.groups, " groups reads ", w[3] * g.groups,
            " channels, x ", x, " has ", x[3]);
  for (int axis = 0; axis < 2; ++axis) {
    c.require(g.stride[axis] > 0 && g.dilation[axis] > 0, "stride and dilation must be positive");
    c.require(g.pad_begin[axis] >= 0 && g.pad_end[axis] >= 0, "padding must not be negative");
    const int64_t reach = g.dilation[axis] * (w[1 + axis] - 1) + 1;
    c.require(x[1 + axis] + g.pad_begin[axis] + g.pad_end[axis] >= reach, "window of ", reach,
              " is larger than the padded ", axis == 0 ? "height " : "width ",
              x[1 + axis] + g.pad_begin[axis] + g.pad_end[axis]);
  }
}

Dims output_dims(const ConvGeometry& g, const Dims& x, const Dims& w) {
  return {x[0], output_size(g, 0, x[1], w[1]), output_size(g, 1, x[2], w[2]), w[0]};
}

}  // namespace

void infer(const Conv2d& p, InferCtx& c) {
  c.require_inputs(p.n_inputs());
  c.require_data_type(0);
  c.require_dtype(1, c.x(0).dtype);
  require_geometry(c, p.geometry, c.x(0).dims, c.x(1).dims);
  const ValueType y{c.x(0).dtype, output_dims(p.geometry, c.x(0).dims, c.x(1).dims)};
  if (p.has_bias) {
    c.require_dims(2, {y.dims[3]});
    if (c.x(2).dtype != y.dtype) c.require_dtype(2, DType::kF32);
  }
  if (p.has_residual) {
    const int residual = p.residual_input();
    c.require(c.x(residual) == y, "residual is ", c.x(residual), ", output is ", y);
  }
  c.require(!p.keep_pre || p.activation != ActivationKind::kNone, "keep_pre needs an activation");
  c.require(!p.keep_sums || (p.is_plain() && y.dtype == DType::kF16),
            "sums are kept of f16 and of products alone");
  c.y(y);
  if (p.keep_pre) c.y(y);
  if (p.keep_sums) c.y({DType::kF32, {2, y.dims[3]}});
}

void grad(const Conv2d& p, GradCtx& c) {
  const ValueId dy = gradient_before(c, p.activation, p.keep_pre);
  if (p.has_residual) c.dx(p.residual_input(), dy);
  // First what reads x, whose memory dx may then have.
  const auto dw =
      c.emit(Conv2dGradWeight{p.geometry, c.type(c.x(1)).dims, c.type(c.x(1)).dtype, p.has_bias},
             {c.x(0), dy});
  c.dx(1, dw[0]);
  if (p.has_bias) c.dx(2, dw[1]);
  if (c.wants(0)) c.dx(0, c.emit1(Conv2dGradData{p.geometry, c.type(c.x(0)).dims}, {dy, c.x(1)}));
}
NodeFacts facts(const Conv2d&, const NodeView& c) {
  return {.flops = conv2d_flops(c.y().dims, c.x(1).dims), .bytes = traffic_of(c)};
}

void infer(const Conv2dGradData& p, InferCtx& c) {
  const bool has_saved = p.activation != ActivationKind::kNone;
  c.require_inputs(2 + has_saved);
  c.require_data_type(0);
  c.require_dtype(1, c.x(0).dtype);
  require_geometry(c, p.geometry, p.x_dims, c.x(1).dims);
  c.require_dims(0, output_dims(p.geometry, p.x_dims, c.x(1).dims));
  const ValueType dx{c.x(0).dtype, p.x_dims};
  if (has_saved) c.require(c.x(2) == dx, "saved tensor is ", c.x(2), ", gradient is ", dx);
  c.require(!p.keep_sums || p.activation == ActivationKind::kRelu,
            "sums are kept behind the derivative of relu alone");
  c.y(dx);
  if (p.keep_sums) c.y({DType::kF32, {dx.dims[3]}});
}
NodeFacts facts(const Conv2dGradData&, const NodeView& c) {
  return {.flops = conv2d_flops(c.x(0).dims, c.x(1).dims), .bytes = traffic_of(c)};
}

void infer(const Conv2dGradNorm& p, InferCtx& c) {
  c.require(p.norms == 1 || p.norms == 2, "is of 1 or 2 normalisations, not of ", p.norms);
  c.require_inputs(p.first_of_norm(p.norms));
  const ValueType x = c.x(p.first_of_norm(0));
  for (int i = 0; i < p.first_of_norm(0); ++i) c.require_dtype(i, DType::kF16);
  require_geometry(c, p.geometry, x.dims, c.x(1).dims);
  c.require_dims(0, output_dims(p.geometry, x.dims, c.x(1).dims));
  for (int i = 2; i < p.first_of_norm(0); ++i)
    c.require(c.x(i) == x, "what is added is ", c.x(i), ", x is ", x);
  for (int64_t norm = 0; norm < p.norms; ++norm) {
    const int first = p.first_of_norm(norm);
    c.require_dtype(first, DType::kF16);
    c.require_dims(first, x.dims);
    for (int i = first + 1; i < first + 5; ++i) {
      c.require_dims(i, {x.dims[3]});
      c.require_dtype(i, DType::kF32);
    }
  }
  c.y(x);
  for (int64_t norm = 0; norm < p.norms; ++norm) c.y({DType::kF32, {2, x.dims[3]}});
}
NodeFacts facts(const Conv2dGradNorm&, const NodeView& c) {
  return {.flops = conv2d_flops(c.x(0).dims, c.x(1).dims), .bytes = traffic_of(c)};
}

void infer(const Conv2dGradWeight& p, InferCtx& c) {
  c.require_inputs(2);
  c.require_data_type(0);
  c.require_dtype(1, c.x(0).dtype);
  require_geometry(c, p.geometry, c.x(0).dims, p.w_dims);
  c.require_dims(1, output_dims(p.geometry, c.x(0).dims, p.w_dims));
  c.require(p.dtype == DType::kF32 || p.dtype == c.x(0).dtype, "gradient in ", p.dtype, " from ",
            c.x(0).dtype);
  c.y({p.dtype, p.w_dims});
  if (p.has_bias) c.y({DType::kF32, {p.w_dims[0]}});
}
NodeFacts facts(const Conv2dGradWeight& p, const NodeView& c) {
  return {.flops = conv2d_flops(c.x(1).dims, p.w_dims), .bytes = traffic_of(c)};
}

}  // namespace assay
