// Copy: out of views and into them.
#include <optional>

#include "sdk/backend/cuda/ops/own_kernel.h"

namespace assay::cuda {
namespace {

kernels::StridedCopy copy_of(const Dims& dims, const Layout& source, const Layout& target,
                             size_t element_bytes) {
  const auto element = static_cast<int64_t>(element_bytes);
  kernels::StridedCopy copy{};
  copy.run_bytes = element;
  copy.runs = 1;
  for (const CommonAxis& axis : common_axes(dims, source, target)) {
    const int64_t from = axis.first * element, to = axis.second * element;
    if (copy.axes == 0 && from == copy.run_bytes && to == copy.run_bytes) {
      copy.run_bytes *= axis.size;
      continue;
    }
    copy.size[copy.axes] = axis.size;
    copy.source_step[copy.axes] = from;
    copy.target_step[copy.axes] = to;
    ++copy.axes;
    copy.runs *= axis.size;
  }
  return copy;
}

}  // namespace

// y [dims] from x: both wherever they lie; zero where x has its border.
NodePlan plan(const Copy&, const Planner& c) {
  NodePlan plan = own_plan("copy");
  const size_t size = dtype_size(c.y().dtype);
  const Layout &x = c.x_layout(0), &y = c.y_layout();
  const Dims stored = x.border ? x.border->dims : c.y().dims;
  std::optional<kernels::StridedCopy> clear;
  int64_t begin = 0;  // of what is copied, in bytes behind y's first element
  if (x.border) {
    clear = copy_of(c.y().dims, y, y, size);
    begin = (slice_layout(y, x.border->begin).offset - y.offset) * static_cast<int64_t>(size);
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
