// Slice, its gradient and Concat: boxes of tensors. Transpose: their axes. Copy: out of such a
// view.
#include "sdk/graph/grad_ctx.h"
#include "sdk/graph/infer_ctx.h"
#include "sdk/ops/cost.h"

namespace assay {
namespace {

void require_box(const InferCtx& c, const Dims& begin, const Dims& box, const Dims& whole) {
  bool inside = begin.rank() == whole.rank() && box.rank() == whole.rank();
  for (int axis = 0; inside && axis < whole.rank(); ++axis) {
    inside = begin[axis] >= 0 && box[axis] >= 1 && box[axis] <= whole[axis] - begin[axis];
  }
  c.require(inside, "the box ", box, " at ", begin, " does not lie inside ", whole);
}

// What can stand one behind the other: data, or numbers of rows.
void require_data_or_places(const InferCtx& c) {
  if (c.x(0).dtype != DType::kI32) c.require_data_type(0);
}

}  // namespace

void infer(const Slice& p, InferCtx& c) {
  c.require_inputs(1);
  c.require_data_type(0);
  require_box(c, p.begin, p.dims, c.x(0).dims);
  c.view({c.x(0).dtype, p.dims}, slice_layout(c.layout(0), p.begin));
}
void grad(const Slice& p, GradCtx& c) {
  c.dx(0, c.emit1(SliceGrad{p.begin, c.type(c.x(0)).dims}, {c.dy()}));
}
NodeFacts facts(const Slice&, const NodeView&) { return {}; }

void infer(const SliceGrad& p, InferCtx& c) {
  c.require_inputs(1);
  c.require_data_type(0);
  require_box(c, p.begin, c.x(0).dims, p.x_dims);
  c.view({c.x(0).dtype, p.x_dims}, border_layout(c.layout(0), c.x(0).dims, p.begin));
}
NodeFacts facts(const SliceGrad&, const NodeView&) { return {}; }

void infer(const Transpose& p, InferCtx& c) {
  c.require_inputs(1);
  c.require_data_type(0);
  const Dims& x = c.x(0).dims;
  Dims y = x;
  unsigned seen = 0;
  for (int k = 0; k < p.axes.rank(); ++k) {
    const int64_t axis = p.axes[k];
    c.require(p.axes.rank() == x.rank() && axis >= 0 && axis < x.rank(), "axes ", p.axes, " of ",
              x);
    y[k] = x[static_cast<int>(axis)];
    seen |= 1u << axis;
  }
  c.require(seen + 1 == 1u << x.rank(), "axes ", p.axes, " are not the axes of ", x,
            " in some order");
  c.view({c.x(0).dtype, y}, transpose_layout(c.layout(0), p.axes));
}
void grad(const Transpose& p, GradCtx& c) {
  Dims back = p.axes;
  for (int k = 0; k < p.axes.rank(); ++k) back[static_cast<int>(p.axes[k])] = k;
  c.dx(0, c.emit1(Transpose{back}, {c.dy()}));
}
NodeFacts facts(const Transpose&, const NodeView&) { return {}; }

void infer(const Copy&, InferCtx& c) {
  c.require_inputs(1);
  require_data_or_places(c);
  c.y(c.x(0));
}
void grad(const Copy&, GradCtx& c) { c.dx(0, c.dy()); }
NodeFacts facts(const Copy&, const NodeView& c) { return {.bytes = traffic_of(c)}; }

void infer(const Concat& p, InferCtx& c) {
  c.require(c.n() >= 1, "needs at least one input");
  require_data_or_places(c);
  ValueType y = c.x(0);
  const auto axis = static_cast<int>(p.axis);
  c.require(p.axis >= 0 && p.axis < y.dims.rank(), "axis ", p.axis, " of ", y.dims);
  for (int i = 1; i < c.n(); ++i) {
    ValueType like = c.x(i);
    c.require(like.dims.rank() == y.dims.rank(), "inputs are ", c.x(0), " and ", c.x(i));
    const int64_t size = like.dims[axis];
    like.dims[axis] = y.dims[axis];
    c.require(like == y, "inputs may differ only along axis ", p.axis, ", got ", c.x(0), " and ",
              c.x(i));
    y.dims[axis] += size;
  }
  c.y(y);
}

void grad(const Concat& p, GradCtx& c) {
  const auto axis = static_cast<int>(p.axis);
  Dims begin = c.type(c.y()).dims;
  for (int i = 0; i < begin.rank(); ++i) begin[i] = 0;
  for (int i = 0; i < c.n(); ++i) {
    const Dims part = c.type(c.x(i)).dims;
    if (c.wants(i)) c.dx(i, c.emit1(Slice{begin, part}, {c.dy()}));
    begin[axis] += part[axis];
  }
}
NodeFacts facts(const Concat&, const NodeView&) { return {}; }  // its parts stand in it

}  // namespace assay
