// Input, Parameter, StepScalar: their memory is written from outside; views are where their inputs
// are; Fill writes its own.
#include <algorithm>

#include "sdk/backend/cpu/planner.h"

namespace assay::cpu {

#define ASSAY_PLAN(Name) \
  NodePlan plan(const Name&, const Planner&) { return nothing_to_do(); }
ASSAY_NOTHING_TO_DO_OPS(ASSAY_PLAN)
#undef ASSAY_PLAN

NodePlan plan(const Fill& p, const Planner& c) {
  NodePlan plan;
  plan.kernel = "own:fill";
  plan.bind = [value = p.value, n = c.y().numel()](const Binding& b) -> Launch {
    return [y = b.y<float>(), n, value](Queue&) { std::fill_n(y, n, value); };
  };
  return plan;
}

}  // namespace assay::cpu
