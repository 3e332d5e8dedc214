// Anchors, MatchAnchors, DetectionLoss and its gradient, TopCandidates, DecodeBoxes,
// SoftSuppression, HardSuppression.
#include "sdk/backend/cuda/ops/own_kernel.h"
#include "sdk/graph/anchors.h"

namespace assay::cuda {
namespace {

static_assert(kMaxLevels == kernels::kMostLevels);

// Inputs [first, first + n) as levels; their addresses are filled in when a plan is bound.
kernels::LevelTensors levels_of(const Planner& c, int first, int n) {
  kernels::LevelTensors levels{n, c.x(first).dims[0], {}, {}};
  for (int level = 0; level < n; ++level)
    levels.first[level + 1] = levels.first[level] + c.x(first + level).numel() / levels.images;
  return levels;
}
kernels::LevelTensors bound(kernels::LevelTensors levels, const Binding& b, int first) {
  for (int level = 0; level < levels.n; ++level) levels.data[level] = b.x<void>(first + level);
  return levels;
}

}  // namespace

// y [A,4].
NodePlan plan(const Anchors& p, const Planner&) {
  NodePlan plan = own_plan("anchors");
  plan.bind = [p](const Binding& b) -> Launch {
    return [p, y = b.y<float>()](Queue& q) {
      float* to = y;
      for (int64_t level = p.first_level; level <= p.last_level; ++level) {
        kernels::AnchorCells cells{
            p.rows >> level, p.columns >> level, static_cast<double>(int64_t{1} << level), {}, {}};
        const auto sizes = anchor_sizes(cells.stride, static_cast<double>(p.scale));
        for (size_t k = 0; k < sizes.size(); ++k) {
          cells.height[k] = sizes[k][0];
          cells.width[k] = sizes[k][1];
        }
        kernels::anchors(stream_of(q), cells, to);
        to += cells.rows * cells.columns * kAnchorsPerCell * 4;
      }
    };
  };
  return plan;
}

// boxes [B,G,4], count [B], anchors [A,4], match [B,A], positives [].
NodePlan plan(const MatchAnchors& p, const Planner& c) {
  const kernels::BoxMatching m{c.x(0).dims[0], c.x(0).dims[1], c.x(2).dims[0], p.threshold};
  NodePlan plan = own_plan("match_anchors");
  plan.scratch_bytes = static_cast<size_t>(m.images * m.places) * sizeof(int32_t);
  plan.bind = [=](const Binding& b) -> Launch {
    return [=, boxes = b.x<float>(0), counts = b.x<int32_t>(1), anchor = b.x<float>(2),
            best = static_cast<int32_t*>(b.scratch), match = b.y<int32_t>(0),
            positives = b.y<float>(1)](Queue& q) {
      kernels::match_anchors(stream_of(q), m, boxes, counts, anchor, best, match, positives);
    };
  };
  return plan;
}

namespace {

// What both directions of the loss are told: L logits, L codes, boxes [B,G,4], classes [B,G],
// anchors [A,4], match [B,A], positives [].
struct LossInputs {
  kernels::LevelTensors logits, codes;
  kernels::DetectionTruth truth;
  Element element;

  LossInputs(const Planner& c, int levels)
      : logits(levels_of(c, 0, levels)),
        codes(levels_of(c, levels, levels)),
        truth{},
        element(element_of(c.x(0))) {
    truth.places = c.x(2 * levels).dims[1];
    truth.anchors = codes.first[levels] / 4;
    truth.classes = logits.first[levels] / truth.anchors;
  }
  LossInputs at(const Binding& b) const {
    LossInputs to = *this;
    const int after = 2 * codes.n;
    to.logits = bound(logits, b, 0);
    to.codes = bound(codes, b, codes.n);
    to.truth.boxes = b.x<float>(after);
    to.truth.labels = b.x<int32_t>(after + 1);
    to.truth.anchor = b.x<float>(after + 2);
    to.truth.match = b.x<int32_t>(after + 3);
    to.truth.positives = b.x<float>(after + 4);
    return to;
  }
};

template <class P>
kernels::DetectionLossArgs args_of(const P& p) {
  return {p.alpha, p.gamma, p.delta, p.box_weight};
}

}  // namespace

NodePlan plan(const DetectionLoss& p, const Planner& c) {
  const LossInputs inputs(c, (c.n_inputs() - 5) / 2);
  NodePlan plan = own_plan("detection_loss");
  plan.scratch_bytes = kernels::detection_loss_bytes(inputs.codes.images, inputs.truth.anchors);
  plan.bind = [=](const Binding& b) -> Launch {
    return [=, x = inputs.at(b), partial = static_cast<double*>(b.scratch), loss = b.y<float>(0),
            class_loss = b.y<float>(1), box_loss = b.y<float>(2)](Queue& q) {
      kernels::detection_loss(stream_of(q), x.element, x.logits, x.codes, x.truth, args_of(p),
                              partial, loss, class_loss, box_loss);
    };
  };
  return plan;
}

NodePlan plan(const DetectionLossGrad& p, const Planner& c) {
  const LossInputs inputs(c, (c.n_inputs() - 6) / 2);
  NodePlan plan = own_plan("detection_loss");
  plan.bind = [=](const Binding& b) -> Launch {
    const int levels = inputs.codes.n;
    kernels::LevelGradients dx{};
    for (int level = 0; level < levels; ++level) {
      dx.logits[level] = b.y<void>(level);
      dx.codes[level] = b.y<void>(levels + level);
    }
    return [=, x = inputs.at(b), dloss = b.x<float>(2 * levels + 5)](Queue& q) {
      kernels::detection_loss_grad(stream_of(q), x.element, x.logits, x.codes, x.truth, args_of(p),
                                   dloss, dx);
    };
  };
  return plan;
}

// L levels, value, pair [B,count].
NodePlan plan(const TopCandidates& p, const Planner& c) {
  const kernels::LevelTensors levels = levels_of(c, 0, c.n_inputs());
  NodePlan plan = own_plan("top_candidates");
  plan.scratch_bytes =
      kernels::top_candidates_bytes(levels.images, levels.first[levels.n], p.count);
  plan.bind = [=, count = p.count, element = element_of(c.x(0))](const Binding& b) -> Launch {
    return [=, x = bound(levels, b, 0), scratch = b.scratch, value = b.y<float>(0),
            pair = b.y<int32_t>(1)](Queue& q) {
      kernels::top_candidates(stream_of(q), element, x, count, scratch, value, pair);
    };
  };
  return plan;
}

// L codes, anchors [A,4], pair [B,K], boxes [B,K,4].
NodePlan plan(const DecodeBoxes& p, const Planner& c) {
  const kernels::LevelTensors codes = levels_of(c, 0, c.n_inputs() - 2);
  NodePlan plan = own_plan("decode_boxes");
  plan.bind = [=, candidates = c.y().dims[1], classes = p.classes,
               element = element_of(c.x(0))](const Binding& b) -> Launch {
    return [=, x = bound(codes, b, 0), anchor = b.x<float>(codes.n),
            pair = b.x<int32_t>(codes.n + 1), y = b.y<float>()](Queue& q) {
      kernels::decode_boxes(stream_of(q), element, x, anchor, pair, candidates, classes, y);
    };
  };
  return plan;
}

namespace {

template <class P>
kernels::Suppression suppression_of(const P& p, const Planner& c) {
  return {c.x(1).dims[0], c.x(1).dims[1], p.classes, p.count};
}
kernels::Candidates candidates_of(const Binding& b) {
  return {b.x<float>(0), b.x<float>(1), b.x<int32_t>(2)};
}
kernels::Detections detections_of(const Binding& b) {
  return {b.y<float>(0), b.y<float>(1), b.y<int32_t>(2)};
}

}  // namespace

// boxes [B,K,4], score, pair [B,K]; box [B,count,4], score, class [B,count].
NodePlan plan(const SoftSuppression& p, const Planner& c) {
  const kernels::Suppression s = suppression_of(p, c);
  NodePlan plan = own_plan("soft_suppression");
  plan.scratch_bytes = kernels::soft_suppression_bytes(s);
  plan.bind = [=](const Binding& b) -> Launch {
    return [=, x = candidates_of(b), y = detections_of(b), scratch = b.scratch](Queue& q) {
      kernels::soft_suppression(stream_of(q), s, p.sigma, p.least, x, scratch, y);
    };
  };
  return plan;
}

NodePlan plan(const HardSuppression& p, const Planner& c) {
  const kernels::Suppression s = suppression_of(p, c);
  NodePlan plan = own_plan("hard_suppression");
  plan.scratch_bytes = static_cast<size_t>(s.images * s.candidates);
  plan.bind = [=](const Binding& b) -> Launch {
    return [=, x = candidates_of(b), y = detections_of(b),
            is_free = static_cast<uint8_t*>(b.scratch)](Queue& q) {
      const float limit[2] = {static_cast<float>(p.limit[0]), static_cast<float>(p.limit[1])};
      kernels::hard_suppression(stream_of(q), s, p.most, p.least, limit, x, is_free, y);
    };
  };
  return plan;
}

}  // namespace assay::cuda
