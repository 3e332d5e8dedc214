// Arange, OffsetIndex and PackedPlaces: a few thousand numbers, which one thread counts up.
#include <algorithm>
#include <numeric>

#include "sdk/backend/cpu/planner.h"

namespace assay::cpu {

// y [count].
NodePlan plan(const Arange& p, const Planner&) {
  NodePlan plan;
  plan.kernel = "own:arange";
  plan.bind = [p](const Binding& b) -> Launch {
    return [p, y = b.y<int32_t>()](Queue&) {
      for (int64_t i = 0; i < p.count; ++i) y[i] = static_cast<int32_t>(i % p.period * p.step);
    };
  };
  return plan;
}

// index, y [n]; start [n / of_each].
NodePlan plan(const OffsetIndex&, const Planner& c) {
  const int64_t n = c.y().numel(), of_each = n / c.x(1).numel();
  NodePlan plan;
  plan.kernel = "own:offset_index";
  plan.bind = [=](const Binding& b) -> Launch {
    return [=, index = b.x<int32_t>(0), start = b.x<int32_t>(1), y = b.y<int32_t>()](Queue&) {
      for (int64_t i = 0; i < n; ++i) y[i] = index[i] < 0 ? -1 : index[i] + start[i / of_each];
    };
  };
  return plan;
}

// length, start [sequences]; source [capacity]; target [sequences * longest].
NodePlan plan(const PackedPlaces& p, const Planner& c) {
  const int64_t sequences = c.x(0).numel();
  NodePlan plan;
  plan.kernel = "own:packed_places";
  plan.bind = [=](const Binding& b) -> Launch {
    return [=, length = b.x<int32_t>(0), start = b.y<int32_t>(0), source = b.y<int32_t>(1),
            target = b.y<int32_t>(2)](Queue&) {
      std::fill_n(source, p.capacity, -1);
      std::fill_n(target, sequences * p.longest, -1);
      int64_t row = 0;
      for (int64_t i = 0; i < sequences; ++i) {
        start[i] = static_cast<int32_t>(row);
        const int64_t rows =
            std::clamp<int64_t>(length[i], 0, std::min(p.longest, p.capacity - row));
        std::iota(source + row, source + row + rows, static_cast<int32_t>(i * p.longest));
        std::iota(target + i * p.longest, target + i * p.longest + rows, start[i]);
        row += rows;
      }
    };
  };
  return plan;
}

}  // namespace assay::cpu
