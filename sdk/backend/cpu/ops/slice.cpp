// Slice, SliceGrad, Concat: copies of boxes, row by row.
#include <cstring>

#include "sdk/backend/cpu/ops/box_copy.h"

namespace assay::cpu {
NodePlan plan(const Slice& p, const Planner& c) {
  NodePlan plan = own_plan(c, "box_copy", 0);
  plan.bytes = 2 * static_cast<double>(c.y().bytes());
  const BoxCopy box(p.dims, c.x(0).dims, p.begin, p.dims, zeros_like(p.dims),
                    dtype_size(c.y().dtype));
  plan.bind = [=, threads = c.threads()](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), y = b.y<void>()](Queue&) { run_copy(box, threads, x, y); };
  };
  return plan;
}

NodePlan plan(const SliceGrad& p, const Planner& c) {
  NodePlan plan = own_plan(c, "box_copy", 0);
  const Dims& dims = c.x(0).dims;
  const BoxCopy box(dims, dims, zeros_like(dims), p.x_dims, p.begin, dtype_size(c.y().dtype));
  plan.bind = [=, size = dtype_size(c.y().dtype), all = chunks_of(p.x_dims.numel()),
               threads = c.threads()](const Binding& b) -> Launch {
    return [=, dy = b.x<void>(0), dx = b.y<void>()](Queue&) {
      parallel_for(threads, all.count(), [&](int64_t i) {
        std::memset(at(dx, all.begin(i), size), 0, static_cast<size_t>(all.length(i)) * size);
      });
      run_copy(box, threads, dy, dx);
    };
  };
  return plan;
}

NodePlan plan(const Concat& p, const Planner& c) {
  NodePlan plan = own_plan(c, "box_copy", 0);
  const auto axis = static_cast<int>(p.axis);
  std::vector<BoxCopy> boxes;
  Dims begin = zeros_like(c.y().dims);
  for (int i = 0; i < c.n_inputs(); ++i) {
    const Dims& part = c.x(i).dims;
    boxes.emplace_back(part, part, zeros_like(part), c.y().dims, begin, dtype_size(c.y().dtype));
    begin[axis] += part[axis];
  }
  plan.bind = [boxes, threads = c.threads()](const Binding& b) -> Launch {
    const std::vector<const void*> parts(b.inputs.begin(), b.inputs.end());
    return [=, y = b.y<void>()](Queue&) {
      for (size_t i = 0; i < boxes.size(); ++i) run_copy(boxes[i], threads, parts[i], y);
    };
  };
  return plan;
}

}  // namespace assay::cpu
