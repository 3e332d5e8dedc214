// Attention and its gradient: cuDNN in 16-bit types, and own kernels, which take every type and
// have a fixed order but compute outside of tensor cores, for f32 and for what cuDNN refuses.
#include "sdk/backend/cuda/ops/dropout.h"
#include "sdk/backend/cuda/ops/own_kernel.h"

namespace assay::cuda {
namespace {

template <class Op>
kernels::AttentionShape shape_of(const Op& p, const Planner& c) {
  const Dims& qkv = c.x(0).dims;
  return {.tokens = qkv[0],
          .sequences = c.x(1).numel(),
          .heads = p.heads,
          .size = qkv[1] / 3 / p.heads,
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

// ---- cuDNN -------------------------------------------------------------------------------------

// cuDNN's call, if it has one. With dropout it must have both directions, as the gradient draws the
// masks of the forward pass again, and own kernels draw others.
template <class Op>
std::optional<LibraryCall> fused_call(const Op& p, const Planner& c) {
  const kernels::AttentionShape s = shape_of(p, c);
  if (c.x(0).dtype == DType::kF32) return std::nullopt;
  FusedAttention attention{.is_gradient = std::is_same_v<Op, AttentionGrad>,
                           .tokens = s.tokens,
                           .sequences = s.sequences,
                           .heads = s.heads,
                           .size = s.size,
                           .longest = s.longest,
                           .scale = s.scale,
                           .rate = p.rate,
                           .data = c.x(0).dtype};
  auto call = c.libraries().attention(attention);
  if (!call || p.rate == 0) return call;
  attention.is_gradient = !attention.is_gradient;
  return c.libraries().attention(attention) ? call : std::nullopt;
}

struct FusedScratch {
  kernels::AttentionRows rows;
  void* call;
  size_t bytes;

  FusedScratch(const kernels::AttentionShape& s, const LibraryCall& library, bool drops,
               void* base) {
    ScratchLayout layout(base);
    const auto ends = static_cast<size_t>(s.sequences + 1);
    rows.bounds = layout.take<int64_t>(2 * ends);
    rows.qkv = layout.take<int64_t>(ends);
    rows.context = layout.take<int64_t>(ends);
    rows.logsumexp = layout.take<int64_t>(ends);
    rows.length = layout.take<int32_t>(ends);
    rows.dropout = drops ? layout.take<int64_t>(2) : nullptr;
    call = layout.take_bytes(library.scratch_bytes);
    bytes = layout.bytes();
  }
};

// The operands that say which rows are whose, behind `tensors`.
std::vector<void*> with_rows(std::vector<void*> tensors, const kernels::AttentionRows& rows) {
  tensors.insert(tensors.end(), {rows.qkv, rows.context, rows.logsumexp, rows.length});
  if (rows.dropout != nullptr) tensors.insert(tensors.end(), {rows.dropout, rows.dropout + 1});
  return tensors;
}

template <class Op>
NodePlan plan_fused(const Op& p, const Planner& c, const LibraryCall& call) {
  constexpr bool kIsGradient = std::is_same_v<Op, AttentionGrad>;
  const kernels::AttentionShape planned = shape_of(p, c);
  NodePlan plan;
  plan.kernel = cat(call.kernel, " own:attention_rows");
  plan.scratch_bytes = FusedScratch(planned, call, p.rate > 0, nullptr).bytes;
  plan.bind = [=](const Binding& b) -> Launch {
    const FusedScratch scratch(planned, call, p.rate > 0, b.scratch);
    std::vector<void*> operands{b.inputs[0]};
    if (kIsGradient) operands.insert(operands.end(), b.inputs.begin() + 3, b.inputs.begin() + 6);
    operands = with_rows(operands, scratch.rows);
    operands.insert(operands.end(), b.outputs.begin(), b.outputs.end());
    const int64_t width = (kIsGradient ? 3 : 1) * planned.heads * planned.size;
    return [=, shape = with_dropout(planned, p, b, kIsGradient ? 6 : 3), run = call.run,
            start = b.x<int32_t>(1), length = b.x<int32_t>(2), y = b.outputs[0],
            logsumexp = kIsGradient ? nullptr : b.y<float>(1)](Queue& q) {
      const Stream stream = stream_of(q);
      kernels::attention_rows(stream, shape, start, length, scratch.rows);
      run(stream, operands, scratch.call);
      kernels::clear_unowned(stream, shape, scratch.rows.bounds, y, width, logsumexp);
    };
  };
  return plan;
}

// ---- Own kernels -------------------------------------------------------------------------------

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

template <class Op>
kernels::AttentionShape own_shape_of(const Op& p, const Planner& c) {
  const kernels::AttentionShape s = shape_of(p, c);
  require(s.size <= kernels::kMostHeadSize, Code::kUnsupported, Op::kName, " at ", c.scope(),
          ": heads of ", s.size, " numbers; on a CUDA device there may be ",
          kernels::kMostHeadSize);
  return s;
}

}  // namespace

// qkv [T,3,heads,D], start, length [B], context [T,heads,D], logsumexp [T,heads], step [].
NodePlan plan(const Attention& p, const Planner& c) {
  if (const auto call = fused_call(p, c)) return plan_fused(p, c, *call);
  NodePlan plan = own_plan("attention");
  const kernels::AttentionShape planned = own_shape_of(p, c);
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
  if (const auto call = fused_call(p, c)) return plan_fused(p, c, *call);
  NodePlan plan = own_plan("attention");
  const kernels::AttentionShape planned = own_shape_of(p, c);
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
