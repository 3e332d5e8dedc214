// BatchNorm in its forms, FoldBatchNorm and RunningStatistics: types, gradient and cost. Numbers by
// channel are f32 whatever the type of the data.
#include "sdk/graph/grad_ctx.h"
#include "sdk/graph/infer_ctx.h"
#include "sdk/graph/text.h"
#include "sdk/ops/cost.h"
#include "sdk/ops/per_channel.h"

namespace assay {
namespace {

int64_t channels_of(const InferCtx& c, int input) {
  c.require_data_type(input);
  c.require(c.x(input).dims.rank() >= 2, "x must be [..., C], got ", c.x(input).dims);
  return c.x(input).dims.back();
}

void require_like_x(const InferCtx& c, int input, std::string_view name) {
  c.require(c.x(input) == c.x(0), name, " is ", c.x(input), ", x is ", c.x(0));
}

void require_activation(const InferCtx& c, ActivationKind kind) {
  c.require(kind == ActivationKind::kNone || kind == ActivationKind::kRelu ||
                kind == ActivationKind::kSwish,
            "can end in relu or swish, not in ", to_text(kind));
}

// Of those of whose relu the mask is kept.
ValueType mask_of(const InferCtx& c, ActivationKind kind, bool has_residual) {
  c.require(kind == ActivationKind::kRelu && has_residual, "has a mask of relu behind a residual");
  Dims dims = c.x(0).dims;
  const int64_t pack = BatchNorm::mask_pack(c.x(0).dtype);
  c.require(dims.back() % pack == 0, "has a mask of ", pack, " channels a byte, x is ", dims);
  dims[dims.rank() - 1] /= pack;
  return {DType::kU8, dims};
}

// [2,C] f32, what a convolution has summed up of x.
void require_sums(const InferCtx& c, int input, int64_t channels) {
  c.require_dtype(0, DType::kF16);
  c.require_dims(input, {2, channels});
  c.require_dtype(input, DType::kF32);
}

// Of training and of its gradient.
void require_differentiable(const InferCtx& c, ActivationKind kind, bool has_residual) {
  require_activation(c, kind);
  c.require(!has_residual || kind == ActivationKind::kNone || gradient_reads_output(kind),
            "cannot train ", to_text(kind),
            " behind a residual: its gradient reads what it is applied to");
}

double flops_of(ActivationKind kind) {
  return kind == ActivationKind::kNone   ? 0
         : kind == ActivationKind::kRelu ? 1
                                         : kFlopsPerExponential + 3;
}

}  // namespace

void infer(const BatchNorm& p, InferCtx& c) {
  require_differentiable(c, p.activation, p.has_residual);
  c.require(!p.normalizes_residual || (p.has_residual && p.has_sums),
            "normalises a residual by its sums where it has its own");
  c.require_inputs(p.sums_input() + p.has_sums + (p.normalizes_residual ? 3 : 0));
  const int64_t channels = channels_of(c, 0);
  require_rows(c);
  require_channels(c, 1, 3, channels);
  if (p.has_residual) require_like_x(c, 3, "residual");
  if (p.has_sums) require_sums(c, p.sums_input(), channels);
  if (p.normalizes_residual) {
    const int first = p.sums_input() + 1;
    require_channels(c, first, first + 2, channels);
    require_sums(c, first + 2, channels);
  }
  c.y(c.x(0));
  for (int i = 0; i < (p.normalizes_residual ? 4 : 2); ++i) c.y({DType::kF32, {channels}});
  if (p.keep_mask) c.y(mask_of(c, p.activation, p.has_residual));
}

void grad(const BatchNorm& p, GradCtx& c) {
  const BatchNormGrad op{
      .epsilon = p.epsilon, .activation = p.activation, .has_residual = p.has_residual};
  // With a residual x alone does not tell the mask, so y comes as well.
  const auto d = op.reads_y() ? c.emit(op, {c.x(0), c.x(1), c.x(2), c.y(1), c.y(2), c.dy(), c.y(0)})
                              : c.emit(op, {c.x(0), c.x(1), c.x(2), c.y(1), c.y(2), c.dy()});
  for (int i = 0; i < 3; ++i) c.dx(i, d[i]);
  if (p.has_residual) c.dx(3, d[3]);
}
NodeFacts facts(const BatchNorm& p, const NodeView& c) {
  NodeFacts facts{
      (6.0 + flops_of(p.activation) + p.has_residual) * count_of(c.x(0)), traffic_of(c), {{0, 0}}};
  if (p.has_residual) facts.in_place.push_back({0, 3});
  return facts;
}

void infer(const BatchNormGrad& p, InferCtx& c) {
  require_differentiable(c, p.activation, p.has_residual);
  c.require(!p.has_addend || p.has_residual,
            "adds to dy where a residual's gradient keeps it only");
  c.require(!p.has_sums || (p.activation == ActivationKind::kNone && !p.has_residual),
            "takes sums of what has passed the activation");
  c.require(!p.has_second || p.has_sums, "is of two normalisations by their sums only");
  c.require_inputs(p.addend_input() + p.has_addend + p.has_sums + (p.has_second ? 6 : 0));
  const int64_t channels = channels_of(c, 0);
  require_channels(c, 1, 5, channels);
  require_like_x(c, 5, "dy");
  if (p.reads_y()) require_like_x(c, 6, "y");
  if (p.has_mask) {
    const ValueType mask = mask_of(c, p.activation, p.has_residual);
    c.require(c.x(6) == mask, "mask is ", c.x(6), ", of x it is ", mask);
  }
  if (p.has_addend) require_like_x(c, p.addend_input(), "addend");
  if (p.has_sums) require_sums(c, 6, channels);
  if (p.has_second) {
    require_like_x(c, 7, "the second x");
    require_channels(c, 8, 12, channels);
    require_sums(c, 12, channels);
  }
  c.y(c.x(0));
  c.y({DType::kF32, {channels}});
  c.y({DType::kF32, {channels}});
  if (p.has_residual) c.y(c.x(0));
  if (!p.has_second) return;
  c.y(c.x(0));
  c.y({DType::kF32, {channels}});
  c.y({DType::kF32, {channels}});
}
NodeFacts facts(const BatchNormGrad& p, const NodeView& c) {
  NodeFacts facts{
      (9.0 + 2.0 * flops_of(p.activation)) * count_of(c.x(0)), traffic_of(c), {{0, 0}, {0, 5}}};
  if (p.has_residual) facts.in_place.push_back({3, 5});
  if (p.has_second) facts.in_place.push_back({3, 7});
  return facts;
}

void infer(const BatchNormInference& p, InferCtx& c) {
  require_activation(c, p.activation);
  c.require_inputs(5 + p.has_residual);
  require_channels(c, 1, 5, channels_of(c, 0));
  if (p.has_residual) require_like_x(c, 5, "residual");
  c.y(c.x(0));
}
NodeFacts facts(const BatchNormInference& p, const NodeView& c) {
  NodeFacts facts{
      (2.0 + flops_of(p.activation) + p.has_residual) * count_of(c.x(0)), traffic_of(c), {{0, 0}}};
  if (p.has_residual) facts.in_place.push_back({0, 5});
  return facts;
}

void infer(const FoldBatchNorm&, InferCtx& c) {
  c.require_inputs(5);
  c.require_dtype(0, DType::kF32);
  c.require(c.x(0).dims.rank() == 4, "w must be [K,R,S,C], got ", c.x(0).dims);
  require_channels(c, 1, 5, c.x(0).dims[0]);
  c.y(c.x(0));
  c.y({DType::kF32, {c.x(0).dims[0]}});
}
NodeFacts facts(const FoldBatchNorm&, const NodeView& c) {
  return {count_of(c.x(0)), traffic_of(c), {{0, 0}}};
}

void infer(const RunningStatistics& p, InferCtx& c) {
  c.require(c.n() >= 5 && c.n() % 4 == 1, "needs four lists of equal length and the loss, got ",
            c.n(), " tensors");
  c.require(p.momentum > 0 && p.momentum <= 1,
            "momentum (the weight of the new statistic) must be in (0, 1], got ", p.momentum);
  const int n = c.n() / 4;
  for (int i = 0; i < 4 * n; ++i) require_channels(c, i, i + 1, c.x(i % n).dims.numel());
  c.require_dims(4 * n, {});
  c.require_dtype(4 * n, DType::kF32);
  for (int i = 0; i < 2 * n; ++i) c.y(c.x(i), i);
}
NodeFacts facts(const RunningStatistics&, const NodeView& c) {
  double channels = 0;
  for (int i = 0; i < c.n_inputs() / 4; ++i) channels += count_of(c.x(i));
  return {.flops = 6 * channels, .bytes = traffic_of(c)};
}

}  // namespace assay
