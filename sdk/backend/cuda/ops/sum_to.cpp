// SumTo: x, or x * times, as slabs [repeats][after], each summed to [after]; and
// ActivationGradSums.
#include "sdk/backend/cuda/ops/own_kernel.h"
#include "sdk/ops/broadcast.h"

namespace assay::cuda {

NodePlan plan(const SumTo& p, const Planner& c) {
  const Repetition r = repetition_of(p.dims, c.x(0).dims);
  const Element element = element_of(c.x(0));
  const bool is_product = c.n_inputs() == 2;
  if (r.before > 1) {
    NodePlan plan = own_plan("slab_sums");
    plan.bind = [=](const Binding& b) -> Launch {
      return [=, x = b.x<void>(0), times = is_product ? b.x<void>(1) : nullptr,
              y = b.y<float>()](Queue& q) {
        kernels::sum_slabs(stream_of(q), element, x, times, r.before, r.repeats, r.after, y);
      };
    };
    return plan;
  }
  NodePlan plan = own_plan("channel_sums");
  plan.scratch_bytes = kernels::partial_sums_bytes(element, r.repeats, r.after, 1);
  plan.bind = [=](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), times = is_product ? b.x<void>(1) : nullptr, y = b.y<float>(),
            partial = static_cast<double*>(b.scratch)](Queue& q) {
      kernels::sum_rows(stream_of(q), element, x, times, r.repeats, r.after,
                        {partial, arrivals_of(q)}, y);
    };
  };
  return plan;
}

// saved, dy, dx [rows, C], sums [C].
NodePlan plan(const ActivationGradSums& p, const Planner& c) {
  const int64_t channels = c.x(0).dims.back(), rows = c.x(0).numel() / channels;
  const Element element = element_of(c.x(0));
  NodePlan plan = own_plan("activation_grad_sums");
  plan.scratch_bytes = kernels::partial_sums_bytes(element, rows, channels, 1);
  plan.bind = [=](const Binding& b) -> Launch {
    return [=, saved = b.x<void>(0), dy = b.x<void>(1), dx = b.y<void>(0), sums = b.y<float>(1),
            partial = static_cast<double*>(b.scratch)](Queue& q) {
      kernels::activation_grad_sums(stream_of(q), element, p.activation, saved, dy, dx, rows,
                                    channels, {partial, arrivals_of(q)}, sums);
    };
  };
  return plan;
}

}  // namespace assay::cuda
