// MaskTokens, SampleTokens and ReplaceTokens: how ELECTRA makes its tasks, on the device.
#include "sdk/graph/infer_ctx.h"
#include "sdk/ops/cost.h"
#include "sdk/ops/random_step.h"

namespace assay {
namespace {

// ids [B,L] and length [B], inputs 0 and 1.
void require_sequences(const InferCtx& c) {
  c.require_dtype(0, DType::kI32);
  c.require(c.x(0).dims.rank() == 2, "ids must be [B,L], got ", c.x(0).dims);
  c.require_dtype(1, DType::kI32);
  c.require_dims(1, {c.x(0).dims[0]});
}

}  // namespace

void infer(const MaskTokens& p, InferCtx& c) {
  c.require_inputs(3);
  require_sequences(c);
  require_step(c, 2);
  c.require(p.slots > 0 && p.slots <= c.x(0).dims[1], "slots must be 1 to ", c.x(0).dims[1],
            ", got ", p.slots);
  c.require(p.fraction > 0 && p.fraction <= 1, "fraction must be in (0, 1], got ", p.fraction);
  const ValueType slots{DType::kI32, {c.x(0).dims[0], p.slots}};
  c.y(c.x(0));
  c.y(slots);
  c.y(slots);
}
NodeFacts facts(const MaskTokens&, const NodeView& c) { return {.bytes = traffic_of(c)}; }

void infer(const SampleTokens&, InferCtx& c) {
  c.require_inputs(2);
  c.require_data_type(0);
  c.require(c.x(0).dims.rank() == 2, "logits must be [N,V], got ", c.x(0).dims);
  require_step(c, 1);
  c.y({DType::kI32, {c.x(0).dims[0]}});
}
NodeFacts facts(const SampleTokens&, const NodeView& c) {
  return {2 * kFlopsPerExponential * count_of(c.x(0)), traffic_of(c), {}};
}

void infer(const ReplaceTokens&, InferCtx& c) {
  c.require_inputs(5);
  require_sequences(c);
  c.require_dtype(2, DType::kI32);
  c.require(c.x(2).dims.rank() == 2 && c.x(2).dims[0] == c.x(0).dims[0],
            "positions must be [B,P], got ", c.x(2).dims);
  c.require_dtype(3, DType::kI32);
  c.require_dims(3, c.x(2).dims);
  c.require_dtype(4, DType::kI32);
  c.require_dims(4, {c.x(2).numel()});
  c.y(c.x(0));
  c.y(c.x(0));
}
NodeFacts facts(const ReplaceTokens&, const NodeView& c) { return {.bytes = traffic_of(c)}; }

}  // namespace assay
