// Input, Parameter, StepScalar: their memory is written from outside; views are where their inputs
// are; Fill writes its own.
#include "sdk/backend/cuda/ops/own_kernel.h"

namespace assay::cuda {

#define ASSAY_PLAN(Name) \
  NodePlan plan(const Name&, const Planner&) { return nothing_to_do(); }
ASSAY_NOTHING_TO_DO_OPS(ASSAY_PLAN)
#undef ASSAY_PLAN

NodePlan plan(const Fill& p, const Planner& c) {
  NodePlan plan = own_plan("fill");
  plan.bind = [value = p.value, n = c.y().numel()](const Binding& b) -> Launch {
    return [=, y = b.y<float>()](Queue& q) { kernels::fill(stream_of(q), y, value, n); };
  };
  return plan;
}

}  // namespace assay::cuda
