// Store, AllReduce, DecayGradients, ClipGradients, GradientNorm, the optimizers and what they
// count: the tail of a training step.
#include "sdk/graph/infer_ctx.h"
#include "sdk/ops/cost.h"

namespace assay {
namespace {

void require_scalar(const InferCtx& c, int i, DType dtype) {
  c.require_dims(i, {});
  c.require_dtype(i, dtype);
}

// Inputs from `first` on are `roles` lists of n tensors each, of equal f32 shapes across the lists.
// Declares the outputs: the lists named by `updated` (0-based), aliased.
void infer_lists(InferCtx& c, int first, int roles, std::initializer_list<int> updated) {
  const int total = c.n() - first;
  c.require(total > 0 && total % roles == 0, "needs ", roles, " lists of equal length, got ", total,
            " tensors");
  const int n = total / roles;
  for (int i = 0; i < n; ++i) {
    c.require_dtype(first + i, DType::kF32);
    for (int role = 1; role < roles; ++role) {
      const ValueType& other = c.x(first + role * n + i);
      c.require(other == c.x(first + i), "tensor ", i, " of list ", role, " is ", other,
                ", expected ", c.x(first + i));
    }
  }
  for (const int role : updated) {
    for (int i = 0; i < n; ++i) c.y(c.x(first + role * n + i), first + role * n + i);
  }
}

// An update of lists of n tensors each that begin at input `first`.
NodeFacts list_facts(const NodeView& c, int first, int roles, double flops_per_element) {
  double elements = 0;
  for (int i = 0; i < (c.n_inputs() - first) / roles; ++i) elements += count_of(c.x(first + i));
  return {.flops = flops_per_element * elements, .bytes = traffic_of(c)};
}

void require_optimizer_scalars(const InferCtx& c) {
  for (int i = 0; i < 3; ++i) require_scalar(c, i, DType::kF32);
}

}  // namespace

void infer(const Store&, InferCtx& c) {
  c.require_inputs(2);
  c.require_dtype(0, DType::kF32);
  c.require(c.x(0) == c.x(1), "destination is ", c.x(0), ", source is ", c.x(1));
  c.y(c.x(0), 0);
}
NodeFacts facts(const Store& p, const NodeView& c) {
  if (p.accumulate) return {.flops = count_of(c.y()), .bytes = traffic_of(c)};
  return {.bytes = 2 * bytes_of(c.y())};
}

void infer(const AllReduce& p, InferCtx& c) {
  c.require(!p.wire || *p.wire == DType::kF16, "wire can be f16, not ",
            p.wire.value_or(DType::kF32));
  infer_lists(c, 0, 1, {0});
}
NodeFacts facts(const AllReduce&, const NodeView& c) { return list_facts(c, 0, 1, 1); }

void infer(const DecayGradients& p, InferCtx& c) {
  require_scalar(c, 0, DType::kF32);
  c.require(p.weight_decay > 0 && p.accumulate >= 1,
            "weight_decay must be positive and accumulate at least 1");
  infer_lists(c, 1, 2, {1});
  c.y({DType::kF32, {}});
}
NodeFacts facts(const DecayGradients&, const NodeView& c) { return list_facts(c, 1, 2, 4); }

void infer(const ClipGradients& p, InferCtx& c) {
  require_scalar(c, 0, DType::kF32);
  c.require(p.clip_norm > 0 && p.accumulate >= 1,
            "clip_norm must be positive and accumulate at least 1");
  infer_lists(c, 1, 1, {0});
}
NodeFacts facts(const ClipGradients&, const NodeView& c) { return list_facts(c, 1, 1, 2); }

void infer(const GradientNorm& p, InferCtx& c) {
  c.require(c.n() >= 2, "needs the loss scale and at least one gradient");
  require_scalar(c, 0, DType::kF32);
  for (int i = 1; i < c.n(); ++i) c.require_dtype(i, DType::kF32);
  c.require(p.clip_norm >= 0 && p.accumulate >= 1,
            "clip_norm must not be negative and accumulate at least 1");
  for (int i = 0; i < 3; ++i) c.y({DType::kF32, {}});
}
NodeFacts facts(const GradientNorm&, const NodeView& c) {
  double elements = 0;
  for (int i = 1; i < c.n_inputs(); ++i) elements += count_of(c.x(i));
  return {.flops = 2 * elements, .bytes = traffic_of(c)};
}

void infer(const CountStep&, InferCtx& c) {
  c.require_inputs(2);
  require_scalar(c, 0, DType::kI64);
  require_scalar(c, 1, DType::kF32);
  c.y(c.x(0), 0);
}
NodeFacts facts(const CountStep&, const NodeView& c) { return {.bytes = traffic_of(c)}; }

void infer(const LossScaleUpdate& p, InferCtx& c) {
  c.require_inputs(3);
  require_scalar(c, 0, DType::kF32);
  require_scalar(c, 1, DType::kI32);
  require_scalar(c, 2, DType::kF32);
  c.require(p.growth >= 1 && p.backoff > 0 && p.backoff <= 1 && p.interval >= 1 && p.minimum > 0 &&
                p.maximum >= p.minimum,
            "growth >= 1, 0 < backoff <= 1, interval >= 1, 0 < minimum <= maximum");
  c.y(c.x(0), 0);
  c.y(c.x(1), 1);
}
NodeFacts facts(const LossScaleUpdate&, const NodeView& c) { return {.bytes = traffic_of(c)}; }

void infer(const SgdUpdate& p, InferCtx& c) {
  require_optimizer_scalars(c);
  c.require(p.momentum >= 0 && p.momentum < 1, "momentum must be in [0, 1), got ", p.momentum);
  if (p.momentum == 0) return infer_lists(c, 3, 2, {0});
  infer_lists(c, 3, 3, {0, 2});
}
NodeFacts facts(const SgdUpdate& p, const NodeView& c) {
  return list_facts(c, 3, p.momentum == 0 ? 2 : 3, 6);
}

void infer(const AdamUpdate&, InferCtx& c) {
  require_optimizer_scalars(c);
  require_scalar(c, 3, DType::kI64);
  infer_lists(c, 4, 4, {0, 2, 3});
}
NodeFacts facts(const AdamUpdate&, const NodeView& c) { return list_facts(c, 4, 4, 14); }

void infer(const LambUpdate&, InferCtx& c) {
  require_optimizer_scalars(c);
  require_scalar(c, 3, DType::kI64);
  infer_lists(c, 4, 4, {0, 2, 3});
}
NodeFacts facts(const LambUpdate&, const NodeView& c) { return list_facts(c, 4, 4, 26); }

void infer(const EmaUpdate& p, InferCtx& c) {
  require_scalar(c, 0, DType::kF32);
  c.require(p.decay > 0 && p.decay < 1, "decay must be in (0, 1), got ", p.decay);
  if (p.warmup) require_scalar(c, 1, DType::kI64);
  infer_lists(c, p.warmup ? 2 : 1, 2, {0});
}
NodeFacts facts(const EmaUpdate& p, const NodeView& c) {
  return list_facts(c, p.warmup ? 2 : 1, 2, 3);
}

}  // namespace assay
