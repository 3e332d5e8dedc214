// Arange, OffsetIndex and PackedPlaces: places of tokens, as numbers of rows.
#include <algorithm>
#include <cstdint>

#include "sdk/graph/infer_ctx.h"
#include "sdk/ops/cost.h"

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
NodeFacts facts(const OffsetIndex&, const NodeView& c) { return {.bytes = traffic_of(c)}; }

void infer(const PackedPlaces& p, InferCtx& c) {
  c.require_inputs(1);
  c.require_dtype(0, DType::kI32);
  const Dims& length = c.x(0).dims;
  c.require(length.rank() == 1, "length must be [B], got ", length);
  c.require(p.longest >= 1 && length[0] <= INT32_MAX / p.longest,
            "the rows of the padded batch are numbered in i32");
  const int64_t padded = length[0] * p.longest;
  c.require(p.capacity >= 1 && p.capacity <= padded, "capacity must be 1 to ", padded, ", got ",
            p.capacity);
  c.y({DType::kI32, length});
  c.y({DType::kI32, {p.capacity}});
  c.y({DType::kI32, {padded}});
}
NodeFacts facts(const PackedPlaces&, const NodeView& c) { return {.bytes = traffic_of(c)}; }

}  // namespace assay
