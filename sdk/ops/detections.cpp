// From the levels of a detector's heads to boxes: TopCandidates, DecodeBoxes, SoftSuppression,
// HardSuppression.
#include "sdk/graph/anchors.h"
#include "sdk/graph/infer_ctx.h"
#include "sdk/ops/cost.h"

namespace assay {

void infer(const TopCandidates& p, InferCtx& c) {
  c.require(c.n() >= 1 && c.n() <= kMaxLevels, "takes the logits of 1 to ", kMaxLevels,
            " levels, got ", c.n());
  int64_t pairs = 0;
  for (int i = 0; i < c.n(); ++i) {
    c.require_data_type(i);
    c.require_dtype(i, c.x(0).dtype);
    const Dims& dims = c.x(i).dims;
    c.require(dims.rank() >= 2 && dims[0] == c.x(0).dims[0],
              "levels must be [B,...] with one B, got ", dims);
    pairs += dims.numel() / dims[0];
  }
  c.require(pairs <= INT32_MAX, "an image has ", pairs, " pairs, more than i32 can count");
  c.require(p.count > 0 && p.count <= pairs, "count must be 1 to ", pairs, ", got ", p.count);
  c.y({DType::kF32, {c.x(0).dims[0], p.count}});
  c.y({DType::kI32, {c.x(0).dims[0], p.count}});
}
NodeFacts facts(const TopCandidates&, const NodeView& c) { return {.bytes = traffic_of(c)}; }

void infer(const DecodeBoxes& p, InferCtx& c) {
  c.require(c.n() >= 3 && c.n() <= kMaxLevels + 2, "takes the codes of 1 to ", kMaxLevels,
            " levels, anchors and pairs, got ", c.n(), " inputs");
  const int levels = c.n() - 2;
  c.require_dtype(levels, DType::kF32);
  const Dims& anchors = c.x(levels).dims;
  c.require(anchors.rank() == 2 && anchors[1] == 4, "anchors must be [A,4], got ", anchors);
  int64_t codes = 0;
  for (int i = 0; i < levels; ++i) {
    c.require_data_type(i);
    c.require_dtype(i, c.x(0).dtype);
    const Dims& dims = c.x(i).dims;
    c.require(dims.rank() >= 2 && dims[0] == c.x(0).dims[0],
              "levels must be [B,...] with one B, got ", dims);
    codes += dims.numel() / dims[0];
  }
  c.require(codes == anchors.numel(), "the levels have ", codes, " numbers an image, and ",
            anchors.numel(), " are the anchors'");
  c.require_dtype(levels + 1, DType::kI32);
  const Dims& pair = c.x(levels + 1).dims;
  c.require(pair.rank() == 2 && pair[0] == c.x(0).dims[0], "pair must be [B,K], got ", pair);
  c.require(p.classes > 0, "classes must be at least 1, got ", p.classes);
  c.y({DType::kF32, {pair[0], pair[1], 4}});
}
NodeFacts facts(const DecodeBoxes&, const NodeView& c) {
  return {.flops = 2 * kFlopsPerExponential * count_of(c.y()), .bytes = 4 * bytes_of(c.y())};
}

namespace {

template <class P>
void infer_suppression(const P& p, InferCtx& c) {
  c.require_inputs(3);
  c.require_dtype(0, DType::kF32);
  const Dims& boxes = c.x(0).dims;
  c.require(boxes.rank() == 3 && boxes[2] == 4, "boxes must be [B,K,4], got ", boxes);
  c.require_dtype(1, DType::kF32);
  c.require_dims(1, {boxes[0], boxes[1]});
  c.require_dtype(2, DType::kI32);
  c.require_dims(2, {boxes[0], boxes[1]});
  c.require(p.classes > 0 && p.count > 0, "classes and count must be at least 1, got ", p.classes,
            " and ", p.count);
  c.y({DType::kF32, {boxes[0], p.count, 4}});
  c.y({DType::kF32, {boxes[0], p.count}});
  c.y({DType::kI32, {boxes[0], p.count}});
}

double overlaps_of(const NodeView& c) {
  return 12 * count_of(c.x(1)) * static_cast<double>(c.y().dims[1]);
}

}  // namespace

void infer(const SoftSuppression& p, InferCtx& c) {
  c.require(p.sigma > 0, "sigma must be above 0, got ", p.sigma);
  infer_suppression(p, c);
}
NodeFacts facts(const SoftSuppression&, const NodeView& c) {
  return {.flops = overlaps_of(c), .bytes = traffic_of(c)};
}

void infer(const HardSuppression& p, InferCtx& c) {
  c.require(p.limit[0] > 0 && p.limit[1] > 0, "limit must be at least 1 x 1, got ", p.limit[0],
            " x ", p.limit[1]);
  infer_suppression(p, c);
}
NodeFacts facts(const HardSuppression&, const NodeView& c) {
  return {.flops = overlaps_of(c), .bytes = traffic_of(c)};
}

}  // namespace assay
