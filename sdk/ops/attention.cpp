// Attention and its gradient: types, gradient and cost.
#include "sdk/graph/grad_ctx.h"
#include "sdk/graph/infer_ctx.h"
#include "sdk/ops/cost.h"
#include "sdk/ops/random_step.h"

namespace assay {
namespace {

// Attributes, qkv, start and length; returns the type of what heads make of the tokens.
template <class Op>
ValueType infer_context(const Op& p, const InferCtx& c) {
  c.require_data_type(0);
  const ValueType& qkv = c.x(0);
  c.require(p.heads >= 1, "heads must be at least 1, got ", p.heads);
  c.require(p.longest >= 1, "longest must be at least 1, got ", p.longest);
  c.require(p.rate >= 0 && p.rate < 1, "rate must be in [0, 1), got ", p.rate);
  c.require(qkv.dims.rank() == 2 && qkv.dims[1] % (3 * p.heads) == 0,
            "qkv must be [T,3H], H a multiple of the ", p.heads, " heads, got ", qkv.dims);
  for (const int i : {1, 2}) {
    c.require_dtype(i, DType::kI32);
    c.require(c.x(i).dims.rank() == 1, i == 1 ? "start" : "length", " must be [B], got ",
              c.x(i).dims);
  }
  c.require_dims(2, c.x(1).dims);
  return {qkv.dtype, {qkv.dims[0], qkv.dims[1] / 3}};
}

// Of products of all tokens with the longest sequence; exact where all are of that length.
template <class Op>
double product_flops(const Op& p, const NodeView& c, int products) {
  const Dims& qkv = c.x(0).dims;
  const int64_t channels = qkv[1] / 3;
  return 2.0 * products * static_cast<double>(qkv[0] * channels * p.longest);
}

}  // namespace

void infer(const Attention& p, InferCtx& c) {
  c.require_inputs(3 + (p.rate > 0));
  const ValueType context = infer_context(p, c);
  if (p.rate > 0) require_step(c, 3);
  c.y(context);
  c.y({DType::kF32, {context.dims[0], p.heads}});
}

void grad(const Attention& p, GradCtx& c) {
  if (!c.wants(0)) return;
  std::vector<ValueId> inputs{c.x(0), c.x(1), c.x(2), c.y(0), c.y(1), c.dy()};
  if (p.rate > 0) inputs.push_back(c.x(3));
  c.dx(0, c.emit(AttentionGrad{p.heads, p.scale, p.longest, p.rate, p.seed, p.stream}, inputs)[0]);
}

NodeFacts facts(const Attention& p, const NodeView& c) {
  return {.flops = product_flops(p, c, 2), .bytes = traffic_of(c)};
}

void infer(const AttentionGrad& p, InferCtx& c) {
  c.require_inputs(6 + (p.rate > 0));
  const ValueType context = infer_context(p, c);
  c.require(c.x(3) == context, "context is ", c.x(3), ", not ", context);
  c.require_dtype(4, DType::kF32);
  c.require_dims(4, {context.dims[0], p.heads});
  c.require(c.x(5) == context, "dcontext is ", c.x(5), ", not ", context);
  if (p.rate > 0) require_step(c, 6);
  c.y(c.x(0));
}
NodeFacts facts(const AttentionGrad& p, const NodeView& c) {
  return {.flops = product_flops(p, c, 5), .bytes = traffic_of(c)};
}

}  // namespace assay
