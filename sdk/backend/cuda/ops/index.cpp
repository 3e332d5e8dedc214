// Arange, OffsetIndex and PackedPlaces.
#include "sdk/backend/cuda/ops/own_kernel.h"

namespace assay::cuda {

// y [count].
NodePlan plan(const Arange& p, const Planner&) {
  NodePlan plan = own_plan("arange");
  plan.bind = [p](const Binding& b) -> Launch {
    return [p, y = b.y<int32_t>()](Queue& q) {
      kernels::arange(stream_of(q), y, p.count, p.period, p.step);
    };
  };
  return plan;
}

// index, y [n]; start [n / of_each].
NodePlan plan(const OffsetIndex&, const Planner& c) {
  const int64_t n = c.y().numel(), of_each = n / c.x(1).numel();
  NodePlan plan = own_plan("offset_index");
  plan.bind = [=](const Binding& b) -> Launch {
    return [=, index = b.x<int32_t>(0), start = b.x<int32_t>(1), y = b.y<int32_t>()](Queue& q) {
      kernels::offset_index(stream_of(q), index, start, y, n, of_each);
    };
  };
  return plan;
}

// length, start [sequences]; source [capacity]; target [sequences * longest].
NodePlan plan(const PackedPlaces& p, const Planner& c) {
  const int64_t sequences = c.x(0).numel();
  NodePlan plan = own_plan("packed_places");
  plan.bind = [=](const Binding& b) -> Launch {
    return [=, length = b.x<int32_t>(0), start = b.y<int32_t>(0), source = b.y<int32_t>(1),
            target = b.y<int32_t>(2)](Queue& q) {
      kernels::packed_places(stream_of(q), length, start, source, target, sequences, p.longest,
                             p.capacity);
    };
  };
  return plan;
}

}  // namespace assay::cuda
