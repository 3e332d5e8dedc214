// DetectionLoss and its gradient: the same inputs, level by level.
#include "sdk/graph/anchors.h"
#include "sdk/graph/grad_ctx.h"
#include "sdk/graph/infer_ctx.h"
#include "sdk/ops/cost.h"

namespace assay {
namespace {

// 2 L tensors of L levels, then boxes, classes, anchors, match, positives.
void require_levels(const InferCtx& c, int levels) {
  c.require(levels <= kMaxLevels, "there may be ", kMaxLevels, " levels, got ", levels);
  const int after = 2 * levels;
  const Dims& boxes = c.x(after).dims;
  c.require(boxes.rank() == 3 && boxes[2] == 4, "boxes must be [B,G,4], got ", boxes);
  const Dims& anchors = c.x(after + 2).dims;
  c.require(anchors.rank() == 2 && anchors[1] == 4, "anchors must be [A,4], got ", anchors);
  int64_t anchors_of_levels = 0, classes = 0;
  for (int level = 0; level < levels; ++level) {
    c.require_data_type(level);
    c.require_dtype(level, c.x(0).dtype);
    c.require_dtype(levels + level, c.x(0).dtype);
    const Dims &logits = c.x(level).dims, &codes = c.x(levels + level).dims;
    c.require(logits.rank() == 4 && codes.rank() == 4 && logits[0] == boxes[0] &&
                  codes[0] == boxes[0] && logits[1] == codes[1] && logits[2] == codes[2] &&
                  codes[3] % 4 == 0 && codes[3] > 0 && logits[3] % (codes[3] / 4) == 0,
              "level ", level, " must be [", boxes[0], ",h,w,k C] and [", boxes[0],
              ",h,w,k 4], got ", logits, " and ", codes);
    const int64_t per_cell = codes[3] / 4;
    if (level == 0) classes = logits[3] / per_cell;
    c.require(logits[3] == classes * per_cell && classes > 0, "level ", level, " has ",
              logits[3] / per_cell, " classes and level 0 has ", classes);
    anchors_of_levels += codes[1] * codes[2] * per_cell;
  }
  c.require(anchors_of_levels == anchors[0], "the levels have ", anchors_of_levels,
            " anchors in all, and ", anchors[0], " are given");
  c.require_dtype(after, DType::kF32);
  c.require_dtype(after + 1, DType::kI32);
  c.require_dims(after + 1, {boxes[0], boxes[1]});
  c.require_dtype(after + 2, DType::kF32);
  c.require_dtype(after + 3, DType::kI32);
  c.require_dims(after + 3, {boxes[0], anchors[0]});
  c.require_dtype(after + 4, DType::kF32);
  c.require_dims(after + 4, {});
}

template <class P>
void require_attributes(const P& p, const InferCtx& c) {
  c.require(p.alpha >= 0 && p.alpha <= 1, "alpha must be 0 to 1, got ", p.alpha);
  c.require(p.gamma >= 0 && p.delta > 0, "gamma must be at least 0 and delta above 0, got ",
            p.gamma, " and ", p.delta);
}

double flops_of_pairs(const NodeView& c, int levels) {
  double pairs = 0;
  for (int level = 0; level < levels; ++level) pairs += count_of(c.x(level));
  return 3 * kFlopsPerExponential * pairs;
}

}  // namespace

void infer(const DetectionLoss& p, InferCtx& c) {
  c.require(c.n() >= 7 && c.n() % 2 == 1,
            "takes logits and codes of each level and five more inputs, got ", c.n());
  require_attributes(p, c);
  require_levels(c, (c.n() - 5) / 2);
  for (int i = 0; i < 3; ++i) c.y({DType::kF32, {}});
}

void grad(const DetectionLoss& p, GradCtx& c) {
  std::vector<ValueId> inputs;
  for (int i = 0; i < c.n(); ++i) inputs.push_back(c.x(i));
  inputs.push_back(c.dy());
  const auto gradients = c.emit(DetectionLossGrad{p.alpha, p.gamma, p.delta, p.box_weight}, inputs);
  for (size_t i = 0; i < gradients.size(); ++i) c.dx(static_cast<int>(i), gradients[i]);
}
NodeFacts facts(const DetectionLoss&, const NodeView& c) {
  return {.flops = flops_of_pairs(c, (c.n_inputs() - 5) / 2), .bytes = traffic_of(c)};
}

void infer(const DetectionLossGrad& p, InferCtx& c) {
  c.require(c.n() >= 8 && c.n() % 2 == 0,
            "takes logits and codes of each level and six more inputs, got ", c.n());
  require_attributes(p, c);
  const int levels = (c.n() - 6) / 2;
  require_levels(c, levels);
  c.require_dtype(c.n() - 1, DType::kF32);
  c.require_dims(c.n() - 1, {});
  for (int i = 0; i < 2 * levels; ++i) c.y(c.x(i));
}
NodeFacts facts(const DetectionLossGrad&, const NodeView& c) {
  NodeFacts facts{.flops = flops_of_pairs(c, (c.n_inputs() - 6) / 2), .bytes = traffic_of(c)};
  for (int i = 0; i < c.n_outputs(); ++i) facts.in_place.push_back({i, i});
  return facts;
}

}  // namespace assay
