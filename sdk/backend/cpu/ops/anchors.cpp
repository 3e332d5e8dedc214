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

// Area of the intersection over that of the union; 0 where there is none.
float overlap(const float* a, const float* b) {
  const float rows = std::min(a[2], b[2]) - std::max(a[0], b[0]);
  const float columns = std::min(a[3], b[3]) - std::max(a[1], b[1]);
  if (!(rows > 0 && columns > 0)) return 0;
  const float both = rows * columns;
  const float areas = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]);
  return both / (areas - both);
}

// The anchor that a box overlaps most, among those of a range.
struct Best {
  float overlap;
  int32_t anchor;
};

struct Matching {
  int64_t images, boxes, anchors;
  Chunks ranges;  // of anchors
  float threshold;

  // Anchors [begin, end) of an image; `best` [boxes] takes what they offer to each box.
  void match(const float* box, int64_t count, const float* anchor, int64_t range, int32_t* match,
             Best* best) const {
    for (int64_t g = 0; g < count; ++g) best[g] = {-1, 0};
    for (int64_t a = ranges.begin(range); a < ranges.end(range); ++a) {
      float most = 0;
      int32_t chosen = -1;
      for (int64_t g = 0; g < count; ++g) {
        const float o = overlap(box + 4 * g, anchor + 4 * a);
        if (o > best[g].overlap) best[g] = {o, static_cast<int32_t>(a)};
        if (o > most) {
          most = o;
          chosen = static_cast<int32_t>(g);
        }
      }
      match[a] = most >= threshold ? chosen : -1;
    }
  }

  // Every box takes the best anchor of all ranges; `best` is [ranges, boxes].
  void force(int64_t count, const Best* best, int32_t* match) const {
    for (int64_t g = count - 1; g >= 0; --g) {  // a lower box comes later, and has it
      Best of_all{-1, 0};
      for (int64_t range = 0; range < ranges.count(); ++range)
        if (const Best& b = best[range * boxes + g]; b.overlap > of_all.overlap) of_all = b;
      match[of_all.anchor] = static_cast<int32_t>(g);
    }
  }
};

}  // namespace

// boxes [B,G,4], count [B], anchors [A,4], match [B,A], positives [].
NodePlan plan(const MatchAnchors& p, const Planner& c) {
  const Dims& boxes = c.x(0).dims;
  const int64_t anchors = c.x(2).dims[0];
  const Matching m{
      boxes[0], boxes[1], anchors, {anchors, std::min<int64_t>(anchors, 4096)}, p.threshold};
  NodePlan plan = own_plan("match_anchors");
  plan.scratch_bytes = static_cast<size_t>(m.images * m.ranges.count() * m.boxes) * sizeof(Best);
  plan.bind = [=, threads = c.threads()](const Binding& b) -> Launch {
    return [=, box = b.x<float>(0), counts = b.x<int32_t>(1), anchor = b.x<float>(2),
            match = b.y<int32_t>(0), positives = b.y<float>(1),
            best = static_cast<Best*>(b.scratch)](Queue&) {
      const auto count_of = [&](int64_t image) {
        return std::min<int64_t>(counts[image], m.boxes);
      };
      const int64_t ranges = m.ranges.count();
      parallel_for(threads, m.images * ranges, [&](int64_t task) {
        const int64_t image = task / ranges;
        m.match(box + image * m.boxes * 4, count_of(image), anchor, task % ranges,
                match + image * m.anchors, best + task * m.boxes);
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
