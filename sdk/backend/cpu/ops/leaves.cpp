// Input, Parameter, StepScalar: their memory is written from outside; views are where their inputs
// are; Fill writes its own.
#include <algorithm>

#include "sdk/backend/cpu/planner.h"

namespace assay::cpu {

NodePlan plan(const Input&, const Planner&) { return nothing_to_do(); }
NodePlan plan(const Parameter&, const Planner&) { return nothing_to_do(); }
NodePlan plan(const StepScalar&, const Planner&) { return nothing_to_do(); }
NodePlan plan(const Reshape&, const Planner&) { return nothing_to_do(); }
NodePlan plan(const Slice&, const Planner&) { return nothing_to_do(); }
NodePlan plan(const SliceGrad&, const Planner&) { return nothing_to_do(); }
NodePlan plan(const Transpose&, const Planner&) { return nothing_to_do(); }
NodePlan plan(const Concat&, const Planner&) { return nothing_to_do(); }  // its parts stand in it

NodePlan plan(const Fill& p, const Planner& c) {
  NodePlan plan;
  plan.kernel = "own:fill";
  plan.bind = [value = p.value, n = c.y().numel()](const Binding& b) -> Launch {
    return [y = b.y<float>(), n, value](Queue&) { std::fill_n(y, n, value); };
  };
  return plan;
}

}  // namespace assay::cpu
