// From the levels of a detector's heads to boxes: TopCandidates, DecodeBoxes, SoftSuppression,
// HardSuppression.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "sdk/backend/cpu/ops/lanes.h"
#include "sdk/graph/anchors.h"

namespace assay::cpu {
namespace {

float number_at(const void* data, int64_t i, DType dtype) {
  if (dtype == DType::kF32) return static_cast<const float*>(data)[i];
  return std::bit_cast<float>(static_cast<uint32_t>(static_cast<const uint16_t*>(data)[i]) << 16);
}

// Tensors [B,...] whose rows belong one after the other.
struct Pyramid {
  int n = 0;
  int64_t images = 1, total = 0;  // numbers of an image
  std::array<int64_t, kMaxLevels> first{}, count{};
  DType dtype = DType::kF32;

  Pyramid(const Planner& c, int levels) : n(levels), images(c.x(0).dims[0]), dtype(c.x(0).dtype) {
    for (int level = 0; level < n; ++level) {
      first[level] = total;
      count[level] = c.x(level).numel() / images;
      total += count[level];
    }
  }
};
using PyramidData = std::array<const void*, kMaxLevels>;

PyramidData data_of(const Binding& b, int levels) {
  PyramidData data{};
  for (int level = 0; level < levels; ++level) data[level] = b.x<void>(level);
  return data;
}

// ---- Selection ----------------------------------------------------------------------------------

struct Candidate {
  uint32_t key;  // ordered as the numbers are; 0: NaN
  int32_t pair;
  friend bool operator<(const Candidate& a, const Candidate& b) {  // the better one first
    return a.key != b.key ? a.key > b.key : a.pair < b.pair;
  }
};

uint32_t key_of(float value) {
  if (std::isnan(value)) return 0;
  const auto bits = std::bit_cast<uint32_t>(value + 0.0f);  // -0 is 0
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}
float value_of(uint32_t key) {
  return std::bit_cast<float>((key >> 31) != 0 ? key & 0x7fffffffu : ~key);
}

// Keeps the best `most` of what it is given, pairs in ascending order. Room for twice as many.
class Selection {
 public:
  Selection(Candidate* room, int64_t most) : room_(room), most_(most) {}

  void add(uint32_t key, int32_t pair) {
    if (key <= bar_ && used_ >= most_) return;  // an equal one of a lower pair is there
    room_[used_++] = {key, pair};
    if (used_ == 2 * most_) shrink();
  }
  void add(const void* data, DType dtype, int64_t begin, int64_t end, int64_t first) {
    for (int64_t i = begin; i < end; i += kBlock) {
      const int64_t last = std::min(i + kBlock, end);
      if (used_ >= most_ && bar_ != 0 && !any_above(data, dtype, i, last)) continue;
      for (int64_t k = i; k < last; ++k)
        add(key_of(number_at(data, k, dtype)), static_cast<int32_t>(first + k - begin));
    }
  }
  int64_t shrink() {
    if (used_ > most_) {
      std::nth_element(room_, room_ + most_ - 1, room_ + used_);
      used_ = most_;
      bar_ = room_[most_ - 1].key;
    }
    return used_;
  }

 private:
  static constexpr int64_t kBlock = 64;

  // Of a few numbers, whether one is better than the bar: vector code, as nearly none is.
  bool any_above(const void* data, DType dtype, int64_t begin, int64_t end) const {
    const float bar = value_of(bar_);
    int above = 0;
    if (dtype == DType::kF32) {
      const auto* x = static_cast<const float*>(data);
      for (int64_t i = begin; i < end; ++i) above |= static_cast<int>(x[i] > bar);
    } else {
      for (int64_t i = begin; i < end; ++i)
        above |= static_cast<int>(number_at(data, i, DType::kBf16) > bar);
    }
    return above != 0;
  }

  Candidate* room_;
  int64_t most_, used_ = 0;
  uint32_t bar_ = 0;  // 0: nothing was left out, or only NaN
};

}  // namespace

// L levels, value, pair [B,count]. Ranges of an image are searched first, each for itself: no more
// than threads need, as each sorts out some thousand numbers before few are left to look at.
NodePlan plan(const TopCandidates& p, const Planner& c) {
  const Pyramid levels(c, c.n_inputs());
  const Chunks ranges{levels.total,
                      std::max({int64_t{1} << 18, 4 * p.count,
                                quotient_up(levels.total * levels.images, c.threads())})};
  const int64_t rooms = ranges.count() + 1;  // the last one takes the best of all
  NodePlan plan = own_plan("top_candidates");
  plan.scratch_bytes =
      static_cast<size_t>(levels.images * rooms * 2 * p.count) * sizeof(Candidate) +
      static_cast<size_t>(levels.images * rooms) * sizeof(int64_t);
  plan.bind = [=, most = p.count, threads = c.threads()](const Binding& b) -> Launch {
    auto* const room = static_cast<Candidate*>(b.scratch);
    auto* const found = reinterpret_cast<int64_t*>(room + levels.images * rooms * 2 * most);
    return [=, data = data_of(b, levels.n), value = b.y<float>(0), pair = b.y<int32_t>(1)](Queue&) {
      parallel_for(threads, levels.images * ranges.count(), [&](int64_t task) {
        const int64_t image = task / ranges.count(), range = task % ranges.count();
        Selection best(room + (image * rooms + range) * 2 * most, most);
        for (int level = 0; level < levels.n; ++level) {
          const int64_t first = levels.first[level];
          const int64_t begin = std::max(ranges.begin(range), first);
          const int64_t end = std::min(ranges.end(range), first + levels.count[level]);
          const int64_t row = image * levels.count[level] - first;
          if (begin < end) best.add(data[level], levels.dtype, row + begin, row + end, begin);
        }
        found[image * rooms + range] = best.shrink();
      });
      parallel_for(threads, levels.images, [&](int64_t image) {
        Candidate* best = room + (image * rooms + ranges.count()) * 2 * most;
        Selection of_all(best, most);
        for (int64_t range = 0; range < ranges.count(); ++range) {
          const Candidate* from = room + (image * rooms + range) * 2 * most;
          for (int64_t i = 0; i < found[image * rooms + range]; ++i)
            of_all.add(from[i].key, from[i].pair);
        }
        std::sort(best, best + of_all.shrink());
        for (int64_t i = 0; i < most; ++i) {
          value[image * most + i] =
              best[i].key == 0 ? std::numeric_limits<float>::quiet_NaN() : value_of(best[i].key);
          pair[image * most + i] = best[i].pair;
        }
      });
    };
  };
  return plan;
}

// L codes [B,...], anchors [A,4], pair [B,K], boxes [B,K,4].
NodePlan plan(const DecodeBoxes& p, const Planner& c) {
  const Pyramid levels(c, c.n_inputs() - 2);
  const int64_t n = c.y().numel() / 4, of_image = n / levels.images;
  NodePlan plan = own_plan("decode_boxes");
  plan.bind = [=, classes = p.classes, chunks = chunks_of(n, 64),
               threads = c.threads()](const Binding& b) -> Launch {
    return [=, data = data_of(b, levels.n), anchors = b.x<float>(levels.n),
            pair = b.x<int32_t>(levels.n + 1), y = b.y<float>()](Queue&) {
      parallel_for(threads, chunks.count(), [&](int64_t chunk) {
        for (int64_t i = chunks.begin(chunk); i < chunks.end(chunk); ++i) {
          const int64_t a = std::clamp<int64_t>(pair[i] / classes, 0, levels.total / 4 - 1);
          int level = levels.n - 1;
          while (a * 4 < levels.first[level]) --level;
          const int64_t at = i / of_image * levels.count[level] + a * 4 - levels.first[level];
          const auto code = [&](int k, float most) {  // NaN stays
            return std::clamp(number_at(data[level], at + k, levels.dtype), -most, most);
          };
          const float* anchor = anchors + 4 * a;
          for (int axis = 0; axis < 2; ++axis) {
            const float size = anchor[axis + 2] - anchor[axis];
            const float from = (anchor[axis] + anchor[axis + 2]) / 2;
            const float middle = code(axis, kMostBoxShift) * size + from;
            const float half = std::exp(code(axis + 2, kMostBoxGrowth)) * size / 2;
            y[4 * i + axis] = middle - half;
            y[4 * i + axis + 2] = middle + half;
          }
        }
      });
    };
  };
  return plan;
}

// ---- Suppression --------------------------------------------------------------------------------

namespace {

// Area of the intersection over that of the union; pixels are added to every size.
float overlap_of(const float* a, const float* b, float pixels) {
  const float rows = std::min(a[2], b[2]) - std::max(a[0], b[0]) + pixels;
  const float columns = std::min(a[3], b[3]) - std::max(a[1], b[1]) + pixels;
  if (!(rows > 0 && columns > 0)) return 0;
  const float both = rows * columns;
  const float areas = (a[2] - a[0] + pixels) * (a[3] - a[1] + pixels) +
                      (b[2] - b[0] + pixels) * (b[3] - b[1] + pixels);
  return both / (areas - both);
}

// Where detections go: [B,count] places, best first.
struct Detections {
  float* box;
  float* score;
  int32_t* label;
};
Detections detections_of(const Binding& b) {
  return {b.y<float>(0), b.y<float>(1), b.y<int32_t>(2)};
}

// Those of one image.
struct Places {
  float* box;
  float* score;
  int32_t* label;
  int64_t count, used = 0;

  Places(const Detections& y, int64_t image, int64_t n)
      : box(y.box + image * n * 4),
        score(y.score + image * n),
        label(y.label + image * n),
        count(n) {}

  void add(const std::array<float, 4>& of_box, float of_score, int64_t of_class) {
    std::copy(of_box.begin(), of_box.end(), box + 4 * used);
    score[used] = of_score;
    label[used++] = static_cast<int32_t>(of_class);
  }
  void fill() {
    std::fill(box + 4 * used, box + 4 * count, 0.0f);
    std::fill(score + used, score + count, 0.0f);
    std::fill(label + used, label + count, -1);
  }
};

std::array<float, 4> box_at(const float* boxes, int64_t i) {
  return {boxes[4 * i], boxes[4 * i + 1], boxes[4 * i + 2], boxes[4 * i + 3]};
}

// A candidate of one class, with the score it has left.
struct Left {
  float score;
  int32_t place;
};
struct SoftShape {
  int64_t candidates, classes, count;
  float sigma, least;
};

// Puts the candidates of each class, in their order, behind one another; begin [classes + 1].
void sort_by_class(const SoftShape& s, const float* score, const int32_t* pair, int64_t* begin,
                   Left* left) {
  const auto class_of = [&](int64_t i) { return std::max<int64_t>(pair[i], 0) % s.classes; };
  std::fill_n(begin, s.classes + 2, 0);
  for (int64_t i = 0; i < s.candidates; ++i) begin[class_of(i) + 2] += !std::isnan(score[i]);
  for (int64_t k = 0; k < s.classes; ++k) begin[k + 2] += begin[k + 1];
  for (int64_t i = 0; i < s.candidates; ++i)
    if (!std::isnan(score[i])) left[begin[class_of(i) + 1]++] = {score[i], static_cast<int32_t>(i)};
}

// Those taken of one class stand at the front of `left` afterwards; returns how many.
int64_t suppress(const SoftShape& s, const float* boxes, Left* left, int64_t n) {
  int64_t taken = 0;
  while (taken < n && taken < s.count) {  // more of one class cannot be among the best
    const auto best = std::max_element(
        left + taken, left + n, [](const Left& a, const Left& b) { return a.score < b.score; });
    std::rotate(left + taken, best, best + 1);  // the others keep their order
    const float* box = boxes + 4 * left[taken++].place;
    int64_t kept = taken;
    for (int64_t i = taken; i < n; ++i) {
      const float o = overlap_of(box, boxes + 4 * left[i].place, 1);
      const float score = left[i].score * std::exp(-(o * o) / s.sigma);
      if (score >= s.least) left[kept++] = {score, left[i].place};
    }
    n = kept;
  }
  return taken;
}

}  // namespace

// boxes [B,K,4], score, pair [B,K]; box [B,count,4], score, class [B,count].
NodePlan plan(const SoftSuppression& p, const Planner& c) {
  const Dims& dims = c.x(1).dims;
  const int64_t images = dims[0];
  const SoftShape s{dims[1], p.classes, p.count, p.sigma, p.least};
  const auto scratch = [=](ScratchLayout layout) {
    struct Parts {
      int64_t *begin, *taken;
      Left* left;
      size_t bytes;
    } parts{layout.take<int64_t>(static_cast<size_t>(images * (s.classes + 2))),
            layout.take<int64_t>(static_cast<size_t>(images * s.classes)),
            layout.take<Left>(static_cast<size_t>(images * s.candidates)), 0};
    parts.bytes = layout.bytes();
    return parts;
  };
  NodePlan plan = own_plan("soft_suppression");
  plan.scratch_bytes = scratch(ScratchLayout(nullptr)).bytes;
  plan.bind = [=, threads = c.threads()](const Binding& b) -> Launch {
    return [=, parts = scratch(ScratchLayout(b.scratch)), boxes = b.x<float>(0),
            score = b.x<float>(1), pair = b.x<int32_t>(2), y = detections_of(b)](Queue&) {
      const auto begin_of = [&](int64_t image) { return parts.begin + image * (s.classes + 2); };
      parallel_for(threads, images, [&](int64_t image) {
        sort_by_class(s, score + image * s.candidates, pair + image * s.candidates, begin_of(image),
                      parts.left + image * s.candidates);
      });
      parallel_for(threads, images * s.classes, [&](int64_t task) {
        const int64_t image = task / s.classes, k = task % s.classes;
        const int64_t begin = begin_of(image)[k], end = begin_of(image)[k + 1];
        parts.taken[task] = suppress(s, boxes + image * s.candidates * 4,
                                     parts.left + image * s.candidates + begin, end - begin);
      });
      parallel_for(threads, images, [&](int64_t image) {
        Places places(y, image, s.count);
        int64_t* next = begin_of(image);  // of each class: the best one not yet placed
        int64_t* end = parts.taken + image * s.classes;
        for (int64_t k = 0; k < s.classes; ++k) end[k] += next[k];
        const Left* left = parts.left + image * s.candidates;
        while (places.used < s.count) {
          int64_t best = -1;
          for (int64_t k = 0; k < s.classes; ++k) {
            if (next[k] == end[k]) continue;
            if (best < 0 || left[next[k]].score > left[next[best]].score) best = k;
          }
          if (best < 0) break;
          const Left& taken = left[next[best]++];
          places.add(box_at(boxes + image * s.candidates * 4, taken.place), taken.score, best);
        }
        places.fill();
      });
    };
  };
  return plan;
}

NodePlan plan(const HardSuppression& p, const Planner& c) {
  const int64_t images = c.x(1).dims[0], candidates = c.x(1).dims[1];
  NodePlan plan = own_plan("hard_suppression");
  plan.scratch_bytes = static_cast<size_t>(images * p.count) * sizeof(int64_t);
  plan.bind = [=, threads = c.threads()](const Binding& b) -> Launch {
    return [=, boxes = b.x<float>(0), score = b.x<float>(1), pair = b.x<int32_t>(2),
            y = detections_of(b), taken = static_cast<int64_t*>(b.scratch)](Queue&) {
      parallel_for(threads, images, [&](int64_t image) {
        const float* box = boxes + image * candidates * 4;
        int64_t* stays = taken + image * p.count;
        Places places(y, image, p.count);
        for (int64_t i = 0; i < candidates && places.used < p.count; ++i) {
          const int64_t at = image * candidates + i;
          if (!(score[at] > p.least)) break;
          const bool free = std::none_of(stays, stays + places.used, [&](int64_t other) {
            return overlap_of(box + 4 * other, box + 4 * i, 0) > p.most;
          });
          if (!free) continue;
          stays[places.used] = i;
          std::array<float, 4> clipped = box_at(box, i);
          for (size_t k = 0; k < 4; ++k)
            clipped[k] = std::clamp(clipped[k], 0.0f, static_cast<float>(p.limit[k % 2]));
          places.add(clipped, score[at], std::max<int64_t>(pair[at], 0) % p.classes);
        }
        places.fill();
      });
    };
  };
  return plan;
}

}  // namespace assay::cpu
