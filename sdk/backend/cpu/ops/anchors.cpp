// Anchors and MatchAnchors.
#include "sdk/graph/anchors.h"

#include <algorithm>

#include "sdk/backend/cpu/ops/lanes.h"

namespace assay::cpu {

// y [A,4].
NodePlan plan(const Anchors& p, const Planner&) {
  NodePlan plan = own_plan("anchors");
  plan.bind = [p](const Binding& b) -> Launch {
    return [p, y = b.y<float>()](Queue&) {
      float* box = y;
      for (int64_t level = p.first_level; level <= p.last_level; ++level) {
        const auto stride = static_cast<double>(int64_t{1} << level);
        const auto sizes = anchor_sizes(stride, static_cast<double>(p.scale));
        for (int64_t row = 0; row < p.rows >> level; ++row) {
          for (int64_t column = 0; column < p.columns >> level; ++column) {
            const double y_middle = (static_cast<double>(row) + 0.5) * stride;
            const double x_middle = (static_cast<double>(column) + 0.5) * stride;
            for (const auto& [height, width] : sizes) {
              *box++ = static_cast<float>(y_middle - height / 2);
              *box++ = static_cast<float>(x_middle - width / 2);
              *box++ = static_cast<float>(y_middle + height / 2);
              *box++ = static_cast<float>(x_middle + width / 2);
            }
          }
        }
      }
    };
  };
  return plan;
}

namespace {

struct Matching {
  int64_t images, boxes, anchors;
  Chunks ranges;  // of anchors

  // Every box takes the best anchor of all ranges; `best` is [ranges, boxes].
  void force(int64_t count, const BestAnchor* best, int32_t* match) const {
    for (int64_t g = count - 1; g >= 0; --g) {  // a lower box comes later, and has it
      BestAnchor of_all{-1, 0};
      for (int64_t range = 0; range < ranges.count(); ++range) {
        const auto [overlap, anchor] = best[range * boxes + g];
        if (overlap <= of_all.overlap) continue;
        of_all = {overlap, anchor + static_cast<int32_t>(ranges.begin(range))};
      }
      match[of_all.anchor] = static_cast<int32_t>(g);
    }
  }
};

}  // namespace

// boxes [B,G,4], count [B], anchors [A,4], match [B,A], positives [].
NodePlan plan(const MatchAnchors& p, const Planner& c) {
  const Dims& boxes = c.x(0).dims;
  const int64_t anchors = c.x(2).dims[0];
  const Matching m{boxes[0], boxes[1], anchors, {anchors, std::min<int64_t>(anchors, 4096)}};
  NodePlan plan = own_plan("match_anchors");
  plan.scratch_bytes =
      static_cast<size_t>(m.images * m.ranges.count() * m.boxes) * sizeof(BestAnchor);
  plan.bind = [=, threshold = p.threshold, threads = c.threads()](const Binding& b) -> Launch {
    return [=, box = b.x<float>(0), counts = b.x<int32_t>(1), anchor = b.x<float>(2),
            match = b.y<int32_t>(0), positives = b.y<float>(1),
            best = static_cast<BestAnchor*>(b.scratch)](Queue&) {
      const auto count_of = [&](int64_t image) {
        return std::min<int64_t>(counts[image], m.boxes);
      };
      const int64_t ranges = m.ranges.count();
      parallel_for(threads, m.images * ranges, [&](int64_t task) {
        const int64_t image = task / ranges, begin = m.ranges.begin(task % ranges);
        kernels().anchors->match(box + image * m.boxes * 4, count_of(image), anchor + 4 * begin,
                                 m.ranges.end(task % ranges) - begin, threshold,
                                 match + image * m.anchors + begin, best + task * m.boxes);
      });
      int64_t sum = 0;
      for (int64_t image = 0; image < m.images; ++image) {
        int32_t* matches = match + image * m.anchors;
        if (counts[image] < 0) std::fill_n(matches, m.anchors, -2);
        m.force(count_of(image), best + image * ranges * m.boxes, matches);
        sum += std::count_if(matches, matches + m.anchors, [](int32_t g) { return g >= 0; });
      }
      *positives = static_cast<float>(sum);
    };
  };
  return plan;
}

}  // namespace assay::cpu
