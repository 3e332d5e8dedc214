// Copy: out of views and into them.
#include <algorithm>
#include <optional>
#include <vector>

#include "sdk/backend/cuda/ops/own_kernel.h"

namespace assay::cuda {
namespace {

struct Axis {
  int64_t size, source, target;  // steps in bytes
};

// Axes of more than one element, those counted as one that lie alike in both; innermost of the
// target first.
std::vector<Axis> axes_of(const Dims& dims, const Layout& source, const Layout& target,
                          int64_t element) {
  std::vector<Axis> axes;
  for (int axis = dims.rank() - 1; axis >= 0; --axis) {
    const Axis next{dims[axis], source.strides[axis] * element, target.strides[axis] * element};
    if (next.size == 1) continue;
    if (!axes.empty() && next.source == axes.back().size * axes.back().source &&
        next.target == axes.back().size * axes.back().target) {
      axes.back().size *= next.size;
    } else {
      axes.push_back(next);
    }
  }
  std::stable_sort(axes.begin(), axes.end(),
                   [](const Axis& a, const Axis& b) { return a.target < b.target; });
  return axes;
}

kernels::StridedCopy copy_of(const Dims& dims, const Layout& source, const Layout& target,
                             size_t element_bytes) {
  const auto element = static_cast<int64_t>(element_bytes);
  kernels::StridedCopy copy{};
  copy.run_bytes = element;
  copy.runs = 1;
  for (const Axis& axis : axes_of(dims, source, target, element)) {
    if (copy.axes == 0 && axis.source == copy.run_bytes && axis.target == copy.run_bytes) {
      copy.run_bytes *= axis.size;
      continue;
    }
    copy.size[copy.axes] = axis.size;
    copy.source_step[copy.axes] = axis.source;
    copy.target_step[copy.axes] = axis.target;
    ++copy.axes;
    copy.runs *= axis.size;
  }
  return copy;
}

}  // namespace

// y [dims] from x: both wherever they lie; zero where x has its border.
NodePlan plan(const Copy&, const Planner& c) {
  NodePlan plan = own_plan(c, "copy", 0);
  const size_t size = dtype_size(c.y().dtype);
  const Layout &x = c.x_layout(0), &y = c.y_layout();
  const Dims stored = x.border ? x.border->dims : c.y().dims;
  std::optional<kernels::StridedCopy> clear;
  int64_t begin = 0;  // of what is copied, in bytes behind y's first element
  if (x.border) {
    clear = copy_of(c.y().dims, y, y, size);
    begin = (slice_layout(y, x.border->begin).offset - y.offset) * static_cast<int64_t>(size);
    plan.bytes = static_cast<double>(c.y().bytes()) +
                 2 * static_cast<double>(stored.numel()) * static_cast<double>(size);
  }
  plan.bind = [=, copy = copy_of(stored, x, y, size)](const Binding& b) -> Launch {
    return [=, from = b.x<void>(0), to = b.y<char>()](Queue& q) {
      if (clear) kernels::copy_strided(stream_of(q), *clear, nullptr, to);
      kernels::copy_strided(stream_of(q), copy, from, to + begin);
    };
  };
  return plan;
}

}  // namespace assay::cuda
