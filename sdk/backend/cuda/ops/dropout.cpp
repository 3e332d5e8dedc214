// Dropout: the mask follows from seed, stream, step and element number, so nothing is kept of it.
#include <algorithm>
#include <cmath>

#include "sdk/backend/cuda/ops/own_kernel.h"
#include "sdk/base/philox.h"

namespace assay::cuda {

// x, y any dims, dense; step [].
NodePlan plan(const Dropout& p, const Planner& c) {
  NodePlan plan = own_plan("philox");
  const PhiloxKey key = philox_key(p.seed, p.stream);
  const double rate = p.rate;
  const kernels::DropoutArgs args{
      .key = {key[0], key[1]},
      .drop_below = static_cast<uint32_t>(std::min(std::nearbyint(rate * 0x1p32), 0x1p32 - 1)),
      .scale = static_cast<float>(1.0 / (1.0 - rate))};
  plan.bind = [=, element = element_of(c.y()), n = c.y().numel()](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), step = b.x<int64_t>(1), y = b.y<void>()](Queue& q) {
      kernels::dropout(stream_of(q), element, args, step, x, y, n);
    };
  };
  return plan;
}

}  // namespace assay::cuda
