// Slice, SliceGrad, Concat: copies of boxes.
#include "sdk/backend/cuda/ops/box.h"

namespace assay::cuda {
NodePlan plan(const Slice& p, const Planner& c) {
  NodePlan plan = own_plan(c, "box_copy", 0);
  plan.bytes = 2 * static_cast<double>(c.y().bytes());
  const kernels::BoxCopy box =
      box_copy(p.dims, {c.x(0).dims, p.begin}, whole(p.dims), dtype_size(c.y().dtype));
  plan.bind = [box](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), y = b.y<void>()](Queue& q) {
      kernels::copy_box(stream_of(q), box, x, y);
    };
  };
  return plan;
}

NodePlan plan(const SliceGrad& p, const Planner& c) {
  NodePlan plan = own_plan(c, "box_copy", 0);
  const Dims& dims = c.x(0).dims;
  const kernels::BoxCopy box =
      box_copy(dims, whole(dims), {p.x_dims, p.begin}, dtype_size(c.y().dtype));
  plan.bind = [box, bytes = static_cast<int64_t>(c.y().bytes())](const Binding& b) -> Launch {
    return [=, dy = b.x<void>(0), dx = b.y<void>()](Queue& q) {
      kernels::clear(stream_of(q), dx, bytes);
      kernels::copy_box(stream_of(q), box, dy, dx);
    };
  };
  return plan;
}

NodePlan plan(const Concat& p, const Planner& c) {
  NodePlan plan = own_plan(c, "box_copy", 0);
  const auto axis = static_cast<int>(p.axis);
  std::vector<kernels::BoxCopy> boxes;
  Dims begin = zeros_like(c.y().dims);
  for (int i = 0; i < c.n_inputs(); ++i) {
    const Dims& part = c.x(i).dims;
    boxes.push_back(box_copy(part, whole(part), {c.y().dims, begin}, dtype_size(c.y().dtype)));
    begin[axis] += part[axis];
  }
  plan.bind = [boxes](const Binding& b) -> Launch {
    const std::vector<const void*> parts(b.inputs.begin(), b.inputs.end());
    return [=, y = b.y<void>()](Queue& q) {
      for (size_t i = 0; i < boxes.size(); ++i)
        kernels::copy_box(stream_of(q), boxes[i], parts[i], y);
    };
  };
  return plan;
}

}  // namespace assay::cuda
