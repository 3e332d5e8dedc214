// DetectionLoss and its gradient. Classes: between two matched anchors all pairs are misses, and
// one kernel runs over them. Boxes: only matched anchors are looked at.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "sdk/backend/cpu/ops/lanes.h"
#include "sdk/graph/anchors.h"

namespace assay::cpu {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// A range of the anchors of one level of one image.
struct LossPart {
  int level;
  int64_t image, begin, end;  // anchors of the level
};

struct LossShape {
  int levels;
  int64_t images, boxes, classes, anchors;
  std::array<int64_t, kMaxLevels> first{}, count{};  // anchors of each level
  int64_t of_part;                                   // anchors of a part
  DType dtype;

  int64_t parts_of(int level) const { return quotient_up(count[level], of_part); }
  int64_t parts() const {
    int64_t n = 0;
    for (int level = 0; level < levels; ++level) n += parts_of(level);
    return n * images;
  }
  LossPart part(int64_t task) const {
    const int64_t image = task % images;
    int64_t range = task / images;
    int level = 0;
    for (; range >= parts_of(level); ++level) range -= parts_of(level);
    return {level, image, range * of_part, std::min(count[level], (range + 1) * of_part)};
  }
};

LossShape shape_of(const Planner& c, int levels) {
  const Dims& boxes = c.x(2 * levels).dims;
  LossShape s{levels, boxes[0], boxes[1], 0, 0, {}, {}, 0, c.x(0).dtype};
  for (int level = 0; level < levels; ++level) {
    const int64_t anchors = c.x(levels + level).numel() / s.images / 4;
    s.classes = c.x(level).numel() / s.images / anchors;
    s.first[level] = s.anchors;
    s.count[level] = anchors;
    s.anchors += anchors;
  }
  s.of_part = std::max<int64_t>(1, 8 * kChunkElems / s.classes);
  return s;
}

// What the inputs behind the levels say.
struct Truth {
  const float* boxes;
  const int32_t* classes;
  const float* anchors;
  const int32_t* match;
  const float* positives;

  Truth(const Binding& b, int after)
      : boxes(b.x<float>(after)),
        classes(b.x<int32_t>(after + 1)),
        anchors(b.x<float>(after + 2)),
        match(b.x<int32_t>(after + 3)),
        positives(b.x<float>(after + 4)) {}

  double n() const { return static_cast<double>(*positives) + 1; }
};

float read(const void* data, int64_t i, DType dtype) {
  if (dtype == DType::kF32) return static_cast<const float*>(data)[i];
  return std::bit_cast<float>(static_cast<uint32_t>(static_cast<const uint16_t*>(data)[i]) << 16);
}

// The codes that an anchor should have for a box.
std::array<float, 4> target_of(const float* anchor, const float* box) {
  const auto code = [](float low, float high, float box_low, float box_high) {
    const float size = std::max(high - low, 1e-8f), wanted = std::max(box_high - box_low, 1e-8f);
    const float shift = (box_low + box_high) / 2 - (low + high) / 2;
    return std::array<float, 2>{shift / size, std::log(wanted / size)};
  };
  const auto y = code(anchor[0], anchor[2], box[0], box[2]);
  const auto x = code(anchor[1], anchor[3], box[1], box[3]);
  return {y[0], x[0], y[1], x[1]};
}

// Runs over the anchors of a part: misses(begin, n) for n anchors without a box, hit(a, image's
// box) for one with, nothing(begin, n) where the image is padding.
template <class Misses, class Hit, class Nothing>
void for_anchors(const int32_t* match, const LossPart& part, const Misses& misses, const Hit& hit,
                 const Nothing& nothing) {
  for (int64_t a = part.begin; a < part.end;) {
    if (match[a] >= 0) {
      hit(a, match[a]);
      ++a;
      continue;
    }
    const bool padding = match[a] < -1;
    int64_t end = a + 1;
    while (end < part.end && match[end] < 0 && (match[end] < -1) == padding) ++end;
    if (padding) {
      nothing(a, end - a);
    } else {
      misses(a, end - a);
    }
    a = end;
  }
}

using Addresses = std::array<const void*, size_t{2} * kMaxLevels>;

struct LossSums {
  double classes, boxes;
};

struct Loss {
  LossShape s;
  float alpha, gamma, delta;
  const SigmoidKernels* kernel;
  int element;

  LossSums sum(const LossPart& part, const Addresses& x, const Truth& truth) const {
    const size_t size = dtype_size(s.dtype);
    const int64_t base = part.image * s.count[part.level];
    const void* logits = at(x[part.level], base * s.classes, size);
    const void* codes = at(x[s.levels + part.level], base * 4, size);
    LossSums sums{0, 0};
    const auto focal = [&](int64_t pair, bool hit, int64_t n) {
      const auto weight = static_cast<double>(hit ? alpha : 1 - alpha);
      sums.classes += weight * kernel->focal[element](at(logits, pair, size), hit, gamma, n);
    };
    for_anchors(
        truth.match + part.image * s.anchors + s.first[part.level], part,
        [&](int64_t a, int64_t n) { focal(a * s.classes, false, n * s.classes); },
        [&](int64_t a, int32_t g) {
          const int64_t row = part.image * s.boxes + g;
          const int32_t label = g < s.boxes ? truth.classes[row] : -1;
          if (label < 0 || label >= s.classes) {
            sums = {kNaN, kNaN};
            return;
          }
          const int64_t pair = a * s.classes;
          focal(pair, false, label);
          focal(pair + label, true, 1);
          focal(pair + label + 1, false, s.classes - label - 1);
          const auto target =
              target_of(truth.anchors + 4 * (s.first[part.level] + a), truth.boxes + 4 * row);
          for (int i = 0; i < 4; ++i)
            if (target[i] != 0) sums.boxes += huber(read(codes, 4 * a + i, s.dtype) - target[i]);
        },
        [](int64_t, int64_t) {});
    return sums;
  }

  // The gradients of a part; by_class and by_box are what a sum's derivative is multiplied by.
  void gradient(const LossPart& part, const Addresses& x, const Addresses& dx, const Truth& truth,
                float by_class, float by_box) const {
    const size_t size = dtype_size(s.dtype);
    const int64_t base = part.image * s.count[part.level];
    const auto place = [&](const Addresses& of, int tensor, int64_t element_of_image) {
      return at(const_cast<void*>(of[tensor]), element_of_image, size);
    };
    const int logits = part.level, codes = s.levels + part.level;
    const auto focal = [&](int64_t a, int64_t c, bool hit, int64_t n) {
      const int64_t pair = (base + a) * s.classes + c;
      kernel->focal_grad[element](place(x, logits, pair), hit, gamma,
                                  by_class * (hit ? alpha : 1 - alpha), place(dx, logits, pair), n);
    };
    const auto write_codes = [&](int64_t a, const std::array<float, 4>& values) {
      kernels().elementwise->cast[kElementF32][element](values.data(),
                                                        place(dx, codes, (base + a) * 4), 4);
    };
    const auto zeros = [&](int tensor, int64_t first, int64_t n) {
      std::memset(place(dx, tensor, first), 0, static_cast<size_t>(n) * size);
    };
    for_anchors(
        truth.match + part.image * s.anchors + s.first[part.level], part,
        [&](int64_t a, int64_t n) {
          focal(a, 0, false, n * s.classes);
          zeros(codes, (base + a) * 4, n * 4);
        },
        [&](int64_t a, int32_t g) {
          const int64_t row = part.image * s.boxes + g;
          const int32_t label = g < s.boxes ? truth.classes[row] : -1;
          const bool known = label >= 0 && label < s.classes;
          focal(a, 0, false, known ? label : s.classes);
          if (known) {
            focal(a, label, true, 1);
            focal(a, label + 1, false, s.classes - label - 1);
          }
          std::array<float, 4> values{kNaN, kNaN, kNaN, kNaN};
          if (known) {
            const auto target =
                target_of(truth.anchors + 4 * (s.first[part.level] + a), truth.boxes + 4 * row);
            for (int i = 0; i < 4; ++i) {
              const float code = read(x[codes], (base + a) * 4 + i, s.dtype);
              values[i] = target[i] == 0 ? 0 : by_box * std::clamp(code - target[i], -delta, delta);
            }
          }
          write_codes(a, values);
        },
        [&](int64_t a, int64_t n) {
          zeros(logits, (base + a) * s.classes, n * s.classes);
          zeros(codes, (base + a) * 4, n * 4);
        });
  }

  double huber(float error) const {
    const auto e = std::abs(static_cast<double>(error)), d = static_cast<double>(delta);
    return e <= d ? e * e / 2 : d * (e - d / 2);
  }
};

template <class P>
Loss loss_of(const P& p, const Planner& c, int levels) {
  return {shape_of(c, levels), p.alpha, p.gamma, p.delta, kernels().sigmoid, element_of(c.x(0))};
}

Addresses inputs_of(const Binding& b, int levels) {
  Addresses x{};
  for (int i = 0; i < 2 * levels; ++i) x[i] = b.x<void>(i);
  return x;
}

}  // namespace

// L logits, L codes, boxes [B,G,4], classes [B,G], anchors [A,4], match [B,A], positives [].
NodePlan plan(const DetectionLoss& p, const Planner& c) {
  const Loss loss = loss_of(p, c, (c.n_inputs() - 5) / 2);
  NodePlan plan = own_plan("detection_loss");
  plan.scratch_bytes = static_cast<size_t>(loss.s.parts()) * sizeof(LossSums);
  plan.bind = [=, box_weight = p.box_weight, threads = c.threads()](const Binding& b) -> Launch {
    const int levels = loss.s.levels;
    return [=, x = inputs_of(b, levels), truth = Truth(b, 2 * levels), y = b.y<float>(0),
            y_class = b.y<float>(1), y_box = b.y<float>(2),
            partial = static_cast<LossSums*>(b.scratch)](Queue&) {
      const int64_t parts = loss.s.parts();
      parallel_for(threads, parts,
                   [&](int64_t task) { partial[task] = loss.sum(loss.s.part(task), x, truth); });
      LossSums sums{0, 0};
      for (int64_t i = 0; i < parts; ++i) {
        sums.classes += partial[i].classes;
        sums.boxes += partial[i].boxes;
      }
      const double classes = sums.classes / truth.n(), boxes = sums.boxes / (4 * truth.n());
      *y_class = static_cast<float>(classes);
      *y_box = static_cast<float>(boxes);
      *y = static_cast<float>(classes + static_cast<double>(box_weight) * boxes);
    };
  };
  return plan;
}

// The same, then dloss []; gradients of logits and codes.
NodePlan plan(const DetectionLossGrad& p, const Planner& c) {
  const Loss loss = loss_of(p, c, (c.n_inputs() - 6) / 2);
  NodePlan plan = own_plan("detection_loss");
  plan.bind = [=, box_weight = p.box_weight, threads = c.threads()](const Binding& b) -> Launch {
    const int levels = loss.s.levels;
    Addresses dx{};
    for (int i = 0; i < 2 * levels; ++i) dx[i] = b.y<void>(i);
    return [=, x = inputs_of(b, levels), truth = Truth(b, 2 * levels),
            dloss = b.x<float>(2 * levels + 5)](Queue&) {
      const auto by_class = static_cast<float>(static_cast<double>(*dloss) / truth.n());
      const float by_box = by_class * box_weight / 4;
      parallel_for(threads, loss.s.parts(), [&](int64_t task) {
        loss.gradient(loss.s.part(task), x, dx, truth, by_class, by_box);
      });
    };
  };
  return plan;
}

}  // namespace assay::cpu
