#include "sdk/graph/elementwise.h"
#include "sdk/graph/grad_ctx.h"
#include "sdk/graph/infer_ctx.h"
#include "sdk/ops/cost.h"
#include "sdk/ops/joined_activation.h"

namespace assay {

void infer(const Matmul& p, InferCtx& c) {
  c.require_inputs(2 + p.has_bias);
  c.require_data_type(0);
  c.require_dtype(1, c.x(0).dtype);
  const Dims& a = c.x(0).dims;
  const Dims& b = c.x(1).dims;
  c.require(a.rank() == 2 && b.rank() == 2, "operands must be matrices, got ", a, " and ", b);
  const int64_t inner_a = a[p.transpose_a ? 0 : 1];
  const int64_t inner_b = b[p.transpose_b ? 1 : 0];
  c.require(inner_a == inner_b, "inner sizes ", inner_a, " and ", inner_b, " differ (a is ", a,
            ", b is ", b, ")");
  c.require(p.dtype == DType::kF32 || p.dtype == c.x(0).dtype, "result in ", p.dtype, " from ",
            c.x(0).dtype);
  const ValueType y{p.dtype, {a[p.transpose_a ? 1 : 0], b[p.transpose_b ? 0 : 1]}};
  if (p.has_bias) {
    c.require_dims(2, {y.dims[1]});
    if (c.x(2).dtype != y.dtype) c.require_dtype(2, DType::kF32);
  }
  c.require(!p.keep_pre || p.activation != ActivationKind::kNone, "keep_pre needs an activation");
  c.y(y);
  if (p.keep_pre) c.y(y);
}

void grad(const Matmul& p, GradCtx& c) {
  ValueId dy = gradient_before(c, p.activation, p.keep_pre);
  if (p.has_bias && c.wants(2)) c.dx(2, c.emit1(SumTo{c.type(c.x(2)).dims}, {dy}));
  const DType dtype = c.type(c.x(0)).dtype;
  if (c.type(dy).dtype != dtype) dy = cast(c, dy, dtype);
  const auto product = [&](bool ta, bool tb, ValueId a, ValueId b) {
    return c.emit1(Matmul{.transpose_a = ta, .transpose_b = tb, .dtype = dtype}, {a, b});
  };
  // y = op(a) op(b):  d op(a) = dy op(b)^T,  d op(b) = op(a)^T dy, each transposed back if its
  // operand was. First what reads a, whose memory its gradient may then have.
  if (c.wants(1)) {
    c.dx(1, p.transpose_b ? product(true, p.transpose_a, dy, c.x(0))
                          : product(!p.transpose_a, false, c.x(0), dy));
  }
  if (c.wants(0)) {
    c.dx(0, p.transpose_a ? product(p.transpose_b, true, c.x(1), dy)
                          : product(false, !p.transpose_b, dy, c.x(1)));
  }
}
NodeFacts facts(const Matmul& p, const NodeView& c) {
  const double inner = static_cast<double>(c.x(0).dims[p.transpose_a ? 0 : 1]);
  return {.flops = 2 * count_of(c.y()) * inner, .bytes = traffic_of(c)};
}

}  // namespace assay
