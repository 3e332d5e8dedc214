#include "sdk/backend/cpu/ops/lanes.h"

namespace assay::cpu {
namespace {

struct Scratch {
  double *partial, *total;
  size_t bytes;
};
Scratch layout(const Lanes& l, void* base) {
  ScratchLayout scratch(base);
  double* partial = scratch.take<double>(partial_sums_elems(l, 1));
  double* total = scratch.take<double>(static_cast<size_t>(l.channels));
  return {partial, total, scratch.bytes()};
}

}  // namespace

NodePlan plan(const SumRows&, const Planner& c) {
  const Lanes l = lanes_of(c.x(0).dims);
  NodePlan plan = own_plan(c, "lane_sums", static_cast<double>(l.n));
  plan.scratch_bytes = layout(l, nullptr).bytes;
  const auto run = kernels().channel->sums[element_of(c.x(0))];
  plan.bind = [=, size = dtype_size(c.x(0).dtype),
               threads = c.threads()](const Binding& b) -> Launch {
    const Scratch s = layout(l, b.scratch);
    return [=, x = b.x<void>(0), y = b.y<float>()] {
      parallel_for(threads, l.tasks.count(), [&](int64_t i) {
        run(at(x, l.tasks.begin(i), size), l.tasks.length(i), l.lanes, s.partial + i * l.lanes);
      });
      fold_partial_sums(l, 1, s.partial, s.total);
      for (int64_t k = 0; k < l.channels; ++k) y[k] = static_cast<float>(s.total[k]);
    };
  };
  return plan;
}

}  // namespace assay::cpu
