// Attention and its gradient on own kernels, which have a fixed order and take every type: right,
// not as fast as tensor cores are. cuDNN's kernels are to take their place in half precision.
#include "sdk/backend/cuda/ops/dropout.h"
#include "sdk/backend/cuda/ops/own_kernel.h"

namespace assay::cuda {
namespace {

template <class Op>
kernels::AttentionShape shape_of(const Op& p, const Planner& c) {
  const Dims& qkv = c.x(0).dims;
  const int64_t size = qkv[1] / 3 / p.heads;
  require(size <= kernels::kMostHeadSize, Code::kUnsupported, Op::kName, " at ", c.scope(),
          ": heads of ", size, " numbers; on a CUDA device there may be ", kernels::kMostHeadSize);
  return {.tokens = qkv[0],
          .sequences = c.x(1).numel(),
          .heads = p.heads,
          .size = size,
          .longest = p.longest,
          .scale = p.scale,
          .dropout = {}};
}

template <class Op>
kernels::AttentionShape with_dropout(kernels::AttentionShape shape, const Op& p, const Binding& b,
                                     int step_input) {
  if (p.rate > 0) shape.dropout = {dropout_args(p), b.x<int64_t>(step_input)};
  return shape;
}

struct Scratch {
  int64_t* bounds;
  float* delta;
  size_t bytes;
};
Scratch scratch_of(const kernels::AttentionShape& s, bool has_delta, void* base) {
  ScratchLayout layout(base);
  auto* bounds = layout.take<int64_t>(static_cast<size_t>(2 * (s.sequences + 1)));
  auto* delta = layout.take<float>(has_delta ? static_cast<size_t>(s.heads * s.tokens) : 0);
  return {bounds, delta, layout.bytes()};
}

}  // namespace

// qkv [T,3,heads,D], start, length [B], context [T,heads,D], logsumexp [T,heads], step [].
NodePlan plan(const Attention& p, const Planner& c) {
  NodePlan plan = own_plan("attention");
  const kernels::AttentionShape planned = shape_of(p, c);
  plan.scratch_bytes = scratch_of(planned, false, nullptr).bytes;
  plan.bind = [=, element = element_of(c.x(0))](const Binding& b) -> Launch {
    return [=, shape = with_dropout(planned, p, b, 3),
            bounds = scratch_of(planned, false, b.scratch).bounds, qkv = b.x<void>(0),
            start = b.x<int32_t>(1), length = b.x<int32_t>(2), context = b.y<void>(0),
            logsumexp = b.y<float>(1)](Queue& q) {
      kernels::attention_bounds(stream_of(q), shape, start, length, bounds);
      kernels::attention(stream_of(q), element, shape, bounds, qkv, context, logsumexp);
    };
  };
  return plan;
}

// qkv, dqkv [T,3,heads,D], start, length [B], context, dcontext [T,heads,D], logsumexp [T,heads],
// step [].
NodePlan plan(const AttentionGrad& p, const Planner& c) {
  NodePlan plan = own_plan("attention");
  const kernels::AttentionShape planned = shape_of(p, c);
  plan.scratch_bytes = scratch_of(planned, true, nullptr).bytes;
  plan.bind = [=, element = element_of(c.x(0))](const Binding& b) -> Launch {
    return [=, shape = with_dropout(planned, p, b, 6),
            scratch = scratch_of(planned, true, b.scratch), qkv = b.x<void>(0),
            start = b.x<int32_t>(1), length = b.x<int32_t>(2), context = b.x<void>(3),
            logsumexp = b.x<float>(4), dcontext = b.x<void>(5), dqkv = b.y<void>(0)](Queue& q) {
      kernels::attention_bounds(stream_of(q), shape, start, length, scratch.bounds);
      kernels::attention_grad(stream_of(q), element, shape, scratch.bounds, qkv, context, dcontext,
                              logsumexp, scratch.delta, dqkv);
    };
  };
  return plan;
}

}  // namespace assay::cuda
