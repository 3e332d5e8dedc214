// SumTo: x, or x * times, as slabs [repeats][after], each summed to [after].
#include "sdk/backend/cpu/ops/channel_sums.h"
#include "sdk/ops/broadcast.h"

namespace assay::cpu {

NodePlan plan(const SumTo& p, const Planner& c) {
  const ValueType& x = c.x(0);
  const Repetition r = repetition_of(p.dims, x.dims);
  const int64_t slab = r.repeats * r.after;
  // Slabs side by side if there are enough of them, else one by one; the sums are the same.
  const bool side_by_side = r.before >= c.threads();
  const ChannelSums sums({x.dtype, {r.repeats, r.after}}, side_by_side ? 1 : c.threads());
  const Chunks groups = chunks_of(r.before, slab);
  NodePlan plan = own_plan("lane_sums");
  const size_t scratch_bytes = sums.scratch_bytes();
  plan.scratch_bytes = scratch_bytes * static_cast<size_t>(groups.count());
  plan.bind = [=, is_product = c.n_inputs() == 2, threads = side_by_side ? c.threads() : 1,
               size = dtype_size(x.dtype)](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), times = is_product ? b.x<void>(1) : nullptr, y = b.y<float>(),
            scratch = static_cast<std::byte*>(b.scratch)](Queue&) {
      parallel_for(threads, groups.count(), [&](int64_t group) {
        for (int64_t i = groups.begin(group); i < groups.end(group); ++i) {
          sums.run(at(x, i * slab, size), times == nullptr ? nullptr : at(times, i * slab, size),
                   y + i * r.after, scratch + static_cast<size_t>(group) * scratch_bytes);
        }
      });
    };
  };
  return plan;
}

NodePlan plan(const ActivationGradSums& p, const Planner& c) { fail_gpu_only(c, p.kName); }

}  // namespace assay::cpu
