// Dropout: the mask follows from seed, stream, step and element number, so nothing is kept of it.
#include "sdk/backend/cpu/ops/own_kernel.h"
#include "sdk/base/philox.h"

namespace assay::cpu {

// x, y any dims, dense; step [].
NodePlan plan(const Dropout& p, const Planner& c) {
  const int64_t n = c.y().numel();
  NodePlan plan = own_plan("philox");
  const PhiloxKey key = philox_key(p.seed, p.stream);
  const double rate = p.rate;
  const DropoutRange whole{
      .key = {key[0], key[1]},
      .step = 0,
      .first = 0,
      // Words below rate * 2^32 are dropped.
      .drop_below = static_cast<uint32_t>(std::min(std::nearbyint(rate * 0x1p32), 0x1p32 - 1)),
      .scale = static_cast<float>(1.0 / (1.0 - rate))};
  const auto run = kernels().dropout->apply[element_of(c.y())];
  plan.bind = [=, size = dtype_size(c.y().dtype), chunks = chunks_of(n),
               threads = c.threads()](const Binding& b) -> Launch {
    return [=, x = b.x<void>(0), step = b.x<int64_t>(1), y = b.y<void>()](Queue&) {
      DropoutRange now = whole;
      now.step = static_cast<uint64_t>(*step);
      parallel_for(threads, chunks.count(), [&](int64_t i) {
        const int64_t begin = chunks.begin(i);
        DropoutRange range = now;
        range.first = static_cast<uint64_t>(begin);
        run(range, at(x, begin, size), at(y, begin, size), chunks.length(i));
      });
    };
  };
  return plan;
}

}  // namespace assay::cpu
