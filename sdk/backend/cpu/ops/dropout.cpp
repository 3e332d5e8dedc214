// Dropout: the mask follows from seed, stream, step and element number, so nothing is kept of it.
#include "sdk/backend/cpu/ops/dropout.h"

#include "sdk/backend/cpu/ops/own_kernel.h"

namespace assay::cpu {

// x, y any dims, dense; step [].
NodePlan plan(const Dropout& p, const Planner& c) {
  const int64_t n = c.y().numel();
  NodePlan plan = own_plan("philox");
  const DropoutRange whole = dropout_range(p);
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
