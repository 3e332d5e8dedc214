// Anchors and MatchAnchors.
#include "sdk/graph/anchors.h"

#include "sdk/graph/infer_ctx.h"
#include "sdk/ops/cost.h"

namespace assay {

void infer(const Anchors& p, InferCtx& c) {
  c.require_inputs(0);
  c.require(0 <= p.first_level && p.first_level <= p.last_level && p.last_level < 16,
            "levels must be 0 to 15 in ascending order, got ", p.first_level, " to ", p.last_level);
  const int64_t last = int64_t{1} << p.last_level;
  c.require(p.rows > 0 && p.columns > 0 && p.rows % last == 0 && p.columns % last == 0,
            "the image must be a multiple of ", last, " in rows and columns, got ", p.rows, " x ",
            p.columns);
  c.require(p.scale > 0, "scale must be above 0, got ", p.scale);
  int64_t cells = 0;
  for (int64_t level = p.first_level; level <= p.last_level; ++level)
    cells += (p.rows >> level) * (p.columns >> level);
  c.y({DType::kF32, {cells * kAnchorsPerCell, 4}});
}
NodeFacts facts(const Anchors&, const NodeView& c) { return {.bytes = traffic_of(c)}; }

void infer(const MatchAnchors& p, InferCtx& c) {
  c.require_inputs(3);
  c.require_dtype(0, DType::kF32);
  const Dims& boxes = c.x(0).dims;
  c.require(boxes.rank() == 3 && boxes[2] == 4, "boxes must be [B,G,4], got ", boxes);
  c.require_dtype(1, DType::kI32);
  c.require_dims(1, {boxes[0]});
  c.require_dtype(2, DType::kF32);
  const Dims& anchors = c.x(2).dims;
  c.require(anchors.rank() == 2 && anchors[1] == 4, "anchors must be [A,4], got ", anchors);
  c.require(p.threshold > 0, "threshold must be above 0, got ", p.threshold);
  c.y({DType::kI32, {boxes[0], anchors[0]}});
  c.y({DType::kF32, {}});
}
NodeFacts facts(const MatchAnchors&, const NodeView& c) {
  return {.flops = 12 * count_of(c.y()) * static_cast<double>(c.x(0).dims[1]),
          .bytes = traffic_of(c)};
}

}  // namespace assay
