// SumTo, and ActivationGradSums: types, gradient and cost.
#include "sdk/graph/grad_ctx.h"
#include "sdk/graph/infer_ctx.h"
#include "sdk/ops/broadcast.h"
#include "sdk/ops/cost.h"

namespace assay {

void infer(const SumTo& p, InferCtx& c) {
  c.require_inputs(1, 2);
  c.require_data_type(0);
  if (c.n() == 2) c.require(c.x(1) == c.x(0), "times is ", c.x(1), ", x is ", c.x(0));
  const Dims& x = c.x(0).dims;
  bool fits = p.dims.rank() <= x.rank();
  for (int axis = 0; fits && axis < x.rank(); ++axis) {
    const int64_t size = aligned_size(p.dims, x.rank(), axis);
    fits = size == 1 || size == x[axis];
  }
  c.require(fits, "cannot sum ", x, " to ", p.dims);
  c.require(repetition_of(p.dims, x).is_one_block, "axes that are summed must stand side by side, ",
            x, " to ", p.dims, " keeps one between them");
  c.y({DType::kF32, p.dims});
}
void grad(const SumTo& p, GradCtx& c) {
  if (c.n() == 2) no_gradient(p);
  const ValueType x = c.type(c.x(0));
  const PointwiseCode repeated(PointwiseFn::kMul,
                               {PointwiseOperand::input(0), PointwiseOperand::input(1)});
  const ValueId dy = c.dy();
  c.dx(0, c.emit1(Pointwise{repeated, x.dtype}, {c.emit1(Fill{x.dims, 1}, {}), dy}));
}
NodeFacts facts(const SumTo&, const NodeView& c) {
  return {.flops = c.n_inputs() * count_of(c.x(0)), .bytes = traffic_of(c)};
}

void infer(const ActivationGradSums& p, InferCtx& c) {
  c.require_inputs(2);
  c.require_data_type(0);
  c.require(p.activation != ActivationKind::kNone, "needs an activation");
  const ValueType x = c.x(0);
  c.require(x.dims.rank() >= 2, "saved must be [..., C], got ", x.dims);
  c.require(c.x(1) == x, "dy is ", c.x(1), ", saved is ", x);
  c.y(x);
  c.y({DType::kF32, {x.dims.back()}});
}
NodeFacts facts(const ActivationGradSums&, const NodeView& c) {
  return {.flops = 3 * count_of(c.x(0)), .bytes = traffic_of(c), .in_place = {{0, 1}}};
}

}  // namespace assay
