// Arange and OffsetIndex: a few thousand numbers, which one thread counts up.
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

}  // namespace assay::cpu
