#include "sdk/backend/cpu/ops/channel_sums.h"

namespace assay::cpu {

NodePlan plan(const SumRows&, const Planner& c) {
  const ChannelSums sums(c.x(0), c.threads());
  NodePlan plan = own_plan(c, "lane_sums", sums.flops());
  plan.scratch_bytes = sums.scratch_bytes();
  plan.bind = [sums](const Binding& b) -> Launch {
    return [sums, x = b.x<void>(0), y = b.y<float>(), scratch = b.scratch](Queue&) {
      sums.run(x, y, scratch);
    };
  };
  return plan;
}

}  // namespace assay::cpu
