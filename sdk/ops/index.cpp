// Arange and OffsetIndex: places of tokens, as numbers of rows.
#include <algorithm>
#include <cstdint>

#include "sdk/graph/grad_ctx.h"
#include "sdk/graph/infer_ctx.h"
#include "sdk/ops/cost.h"
#include "sdk/ops/no_gradient.h"

namespace assay {

void infer(const Arange& p, InferCtx& c) {
  c.require_inputs(0);
  c.require(p.count > 0 && p.period > 0, "count and period must be at least 1, got ", p.count,
            " and ", p.period);
  const int64_t largest = std::min(p.count, p.period) - 1;
  c.require(p.step >= 0 && (largest == 0 || p.step <= INT32_MAX / largest),
            "the largest number is beyond i32");
  c.y({DType::kI32, {p.count}});
}
void grad(const Arange& p, GradCtx&) { no_gradient(p); }
NodeFacts facts(const Arange&, const NodeView& c) { return {.bytes = traffic_of(c)}; }

void infer(const OffsetIndex&, InferCtx& c) {
  c.require_inputs(2);
  c.require_dtype(0, DType::kI32);
  c.require_dtype(1, DType::kI32);
  const Dims& start = c.x(1).dims;
  c.require(start.rank() == 1 && start[0] > 0 && c.x(0).numel() % start[0] == 0,
            "start must be [B], with ", c.x(0).numel(), " places for B sequences, got ", start);
  c.y({DType::kI32, {c.x(0).numel()}});
}
void grad(const OffsetIndex& p, GradCtx&) { no_gradient(p); }
NodeFacts facts(const OffsetIndex&, const NodeView& c) { return {.bytes = traffic_of(c)}; }

}  // namespace assay
