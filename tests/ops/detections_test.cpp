// From logits and codes to detections: selection, decoding, and both ways to suppress.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/harness/op_case.h"

namespace assay::test {
namespace {

std::vector<Tensor> top_reference(const Op& op, const std::vector<Tensor>& x) {
  const int64_t k = std::get<TopCandidates>(op).count, images = x[0].dims[0];
  Tensor value{{images, k}, {}}, pair{{images, k}, {}};
  for (int64_t n = 0; n < images; ++n) {
    std::vector<double> all;
    for (const Tensor& level : x) {
      const int64_t of_image = level.dims.numel() / images;
      const auto begin = level.values.begin() + n * of_image;
      all.insert(all.end(), begin, begin + of_image);
    }
    std::vector<size_t> order(all.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return all[a] > all[b] || (std::isnan(all[b]) && !std::isnan(all[a]));
    });
    for (int64_t i = 0; i < k; ++i) {
      value.values.push_back(all[order[static_cast<size_t>(i)]]);
      pair.values.push_back(static_cast<double>(order[static_cast<size_t>(i)]));
    }
  }
  return {value, pair};
}

TEST(TopCandidates, AreTheLargestOfAllLevels) {
  check_op({{"all", TopCandidates{30}, {{{1, 5, 4}, {}, {}}, {{1, 10}, {}, {}}}},
            {"one", TopCandidates{1}, {{{3, 7}, {}, {}}}},
            {"ties",
             TopCandidates{9},
             {{{2, 3, 5}, {}, Recipe::integer(-1, 1)}, {{2, 4}, {}, Recipe::integer(-1, 1)}}},
            {"many",
             TopCandidates{500},
             {{{2, 9000}, {}, Recipe::uniform(-6, 1)},
              {{2, 2000}, {}, Recipe::uniform(-6, 1)},
              {{2, 7}, {}, Recipe::uniform(-6, 2)}}},
            {"many equal ones",
             TopCandidates{700},
             {{{1, 12000}, {}, Recipe::integer(-3, 3)}, {{1, 333}, {}, Recipe::integer(-3, 9)}}},
            {"all equal", TopCandidates{300}, {{{1, 6000}, {}, Recipe::integer(-4, -4)}}}},
           top_reference);
}

// Longer than a range of the CPU's search; ascending, so that every number beats those before.
TEST(TopCandidates, OfMoreThanARange) {
  std::vector<double> rising(300001);
  std::iota(rising.begin(), rising.end(), -1000.0);
  OpCase c{"rising", TopCandidates{5000}, {{{1, 300001}, DType::kF32, Recipe::listed(rising)}}};
  c.dtypes = {DType::kF32};
  check_values(c, DType::kF32, top_reference);
}

TEST(TopCandidates, NaNComesLastAndZeroHasNoSign) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  const RunResult got =
      run_node(TopCandidates{6}, {{{1, 6}, {nan, -0.0, 0.0, -inf, inf, nan}}}, {DType::kF32});
  EXPECT_EQ(decode(got.outputs[1], {DType::kI32, {6}}).values,
            (std::vector<double>{4, 1, 2, 3, 0, 5}));
}

std::vector<Tensor> decode_reference(const Op& op, const std::vector<Tensor>& x) {
  const size_t levels = x.size() - 2;
  const int64_t images = x[0].dims[0], k = x[levels + 1].dims[1];
  Tensor y{{images, k, 4}, {}};
  for (int64_t i = 0; i < images * k; ++i) {
    int64_t a = static_cast<int64_t>(x[levels + 1].values[static_cast<size_t>(i)]) /
                std::get<DecodeBoxes>(op).classes;
    const double* anchor = x[levels].values.data() + 4 * a;
    size_t level = 0;
    for (; a >= x[level].dims.numel() / images / 4; ++level)
      a -= x[level].dims.numel() / images / 4;
    const double* code = x[level].values.data() + i / k * x[level].dims.numel() / images + 4 * a;
    const double h = anchor[2] - anchor[0], w = anchor[3] - anchor[1];
    const double row = code[0] * h + anchor[0] + h / 2, column = code[1] * w + anchor[1] + w / 2;
    const double rows = std::exp(code[2]) * h, columns = std::exp(code[3]) * w;
    y.values.insert(y.values.end(),
                    {row - rows / 2, column - columns / 2, row + rows / 2, column + columns / 2});
  }
  return {y};
}

TEST(DecodeBoxes, TurnsTheCodesAround) {
  std::vector<double> anchors;
  for (int i = 0; i < 14; ++i)
    anchors.insert(anchors.end(), {1.0 * i, 2.0 * i - 5, 1.0 * i + 9, 2.0 * i + 3});
  OpCase c{"two levels",
           DecodeBoxes{7},
           {{{2, 2, 3, 8}, {}, {}},
            {{2, 1, 1, 8}, {}, {}},
            {{14, 4}, DType::kF32, Recipe::listed(anchors)},
            {{2, 33}, DType::kI32, Recipe::integer(0, 97)}}};
  c.accuracy = {.magnitude = 30, .ulps = 8};
  check_op(c, decode_reference);
}

// As of a network whose statistics have not settled.
TEST(DecodeBoxes, HugeCodesGiveFiniteAreas) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor codes{{1, 1, 1, 12}, {1e30, -1e38, 100, 3e38, 0, 0, -200, -1e38, nan, 0, nan, 0}};
  const Tensor anchors{{3, 4}, {0, 0, 512, 512, 0, 0, 8, 8, 0, 0, 8, 8}};
  const RunResult got = run_node(DecodeBoxes{1}, {codes, anchors, {{1, 3}, {0, 1, 2}}},
                                 {DType::kF32, DType::kF32, DType::kI32});
  const std::vector<double> y = decode(got.outputs[0], {DType::kF32, {3, 4}}).values;
  for (size_t i = 0; i < 8; i += 4) {
    const auto area = static_cast<float>((y[i + 2] - y[i]) * (y[i + 3] - y[i + 1]));
    EXPECT_TRUE(std::isfinite(area) && area >= 0) << i;
  }
  EXPECT_TRUE(std::isnan(y[8]) && std::isnan(y[10]));
  EXPECT_EQ(y[9], 0);
}

// ---- Suppression --------------------------------------------------------------------------------

using Box = std::array<float, 4>;
struct Found {
  Box box;
  float score;
  int label;
};

float overlap(const Box& a, const Box& b, float pixels) {
  const float rows = std::min(a[2], b[2]) - std::max(a[0], b[0]) + pixels;
  const float columns = std::min(a[3], b[3]) - std::max(a[1], b[1]) + pixels;
  if (!(rows > 0 && columns > 0)) return 0;
  const float both = rows * columns;
  return both / ((a[2] - a[0] + pixels) * (a[3] - a[1] + pixels) +
                 (b[2] - b[0] + pixels) * (b[3] - b[1] + pixels) - both);
}

// In f32, as order depends on every comparison.
std::vector<Found> soft(const SoftSuppression& p, std::vector<Found> all) {
  std::vector<Found> taken;
  for (int k = 0; k < p.classes; ++k) {
    std::vector<Found> left;
    std::copy_if(all.begin(), all.end(), std::back_inserter(left),
                 [&](const Found& f) { return f.label == k; });
    while (!left.empty()) {
      const auto best = std::max_element(left.begin(), left.end(),
                                         [](auto& a, auto& b) { return a.score < b.score; });
      const Found first = *best;
      taken.push_back(first);
      left.erase(best);
      for (Found& f : left) {
        const float o = overlap(first.box, f.box, 1);
        f.score *= std::exp(-(o * o) / p.sigma);
      }
      std::erase_if(left, [&](const Found& f) { return !(f.score >= p.least); });
    }
  }
  std::stable_sort(taken.begin(), taken.end(), [](auto& a, auto& b) { return a.score > b.score; });
  return taken;
}
std::vector<Found> hard(const HardSuppression& p, const std::vector<Found>& all) {
  std::vector<Found> taken;
  for (const Found& f : all) {
    const bool free = std::none_of(taken.begin(), taken.end(), [&](const Found& t) {
      return overlap(t.box, f.box, 0) > p.most;
    });
    if (free && f.score > p.least) taken.push_back(f);
  }
  for (Found& f : taken)
    for (size_t k = 0; k < 4; ++k)
      f.box[k] = std::clamp(f.box[k], 0.0f, static_cast<float>(p.limit[k % 2]));
  return taken;
}

template <class P, class Suppress>
std::vector<Tensor> suppressed(const P& p, const std::vector<Tensor>& x, const Suppress& suppress) {
  const int64_t images = x[1].dims[0], candidates = x[1].dims[1];
  std::vector<Tensor> y{
      {{images, p.count, 4}, {}}, {{images, p.count}, {}}, {{images, p.count}, {}}};
  for (int64_t n = 0; n < images; ++n) {
    std::vector<Found> all;
    for (int64_t i = n * candidates; i < (n + 1) * candidates; ++i) {
      const auto at = static_cast<size_t>(i);
      Found& f = all.emplace_back();
      for (size_t k = 0; k < 4; ++k) f.box[k] = static_cast<float>(x[0].values[4 * at + k]);
      f.score = static_cast<float>(x[1].values[at]);
      f.label = static_cast<int>(x[2].values[at]) % static_cast<int>(p.classes);
    }
    std::vector<Found> taken = suppress(p, all);
    taken.resize(static_cast<size_t>(p.count), Found{{0, 0, 0, 0}, 0, -1});
    for (const Found& f : taken) {
      for (const float v : f.box) y[0].values.push_back(static_cast<double>(v));
      y[1].values.push_back(static_cast<double>(f.score));
      y[2].values.push_back(f.label);
    }
  }
  return y;
}
std::vector<Tensor> soft_reference(const Op& op, const std::vector<Tensor>& x) {
  return suppressed(std::get<SoftSuppression>(op), x, soft);
}
std::vector<Tensor> hard_reference(const Op& op, const std::vector<Tensor>& x) {
  return suppressed(std::get<HardSuppression>(op), x, hard);
}

// Candidates in order of their scores, which are far enough apart for f32.
std::vector<Argument> candidates(int64_t images, int64_t n, int spread, int pairs) {
  std::vector<double> boxes, scores, pair;
  uint32_t state = 77u + static_cast<uint32_t>(n);
  const auto draw = [&](int below) {
    state = state * 1664525u + 1013904223u;
    return static_cast<double>((state >> 8) % static_cast<uint32_t>(below));
  };
  for (int64_t i = 0; i < images * n; ++i) {
    const double y = draw(spread) - 5, x = draw(spread) - 5;
    boxes.insert(boxes.end(), {y, x, y + 5 + draw(20), x + 5 + draw(20)});
    scores.push_back(0.98 * (1 - static_cast<double>(i % n) / static_cast<double>(n)));
    pair.push_back(draw(pairs));
  }
  return {{{images, n, 4}, DType::kF32, Recipe::listed(boxes)},
          {{images, n}, DType::kF32, Recipe::listed(scores)},
          {{images, n}, DType::kI32, Recipe::listed(pair)}};
}

TEST(SoftSuppression, LowersWhatOverlaps) {
  const Accuracy accuracy{.ulps = 16};
  check_op({{"few", SoftSuppression{3, 10}, candidates(2, 7, 20, 30), accuracy},
            {"one class", SoftSuppression{1, 25}, candidates(1, 60, 30, 9), accuracy},
            {"more than places", SoftSuppression{4, 20}, candidates(3, 90, 60, 400), accuracy},
            {"more classes than threads", SoftSuppression{300, 50}, candidates(1, 333, 40, 900),
             accuracy},
            {"one", SoftSuppression{91, 1}, candidates(2, 1, 9, 9), accuracy}},
           soft_reference);
}

// The example of efficientdet_d0's sheet: as (ymin, xmin, ymax, xmax).
TEST(SoftSuppression, OfTheSheet) {
  const RunResult got =
      run_node(SoftSuppression{1, 4},
               {{{1, 4, 4}, {0, 0, 99, 99, 0, 10, 99, 109, 200, 200, 249, 249, 0, 0, 99, 98}},
                {{1, 4}, {0.9, 0.8, 0.7, 0.0015}},
                {{1, 4}, {0, 0, 0, 0}}},
               {DType::kF32, DType::kF32, DType::kI32});
  const auto score = decode(got.outputs[1], {DType::kF32, {4}}).values;
  EXPECT_FLOAT_EQ(static_cast<float>(score[0]), 0.9f);
  EXPECT_FLOAT_EQ(static_cast<float>(score[1]), 0.7f);
  EXPECT_NEAR(score[2], 0.20971904, 1e-7);
  EXPECT_EQ(decode(got.outputs[2], {DType::kI32, {4}}).values, (std::vector<double>{0, 0, 0, -1}));
}

TEST(SoftSuppression, KeepsTheFirstOfAClassWhateverItsScoreAndDropsNaN) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const RunResult got = run_node(SoftSuppression{2, 3},
                                 {{{1, 3, 4}, {0, 0, 9, 9, 0, 0, 9, 9, 0, 0, 9, 9}},
                                  {{1, 3}, {nan, 1e-6, 1e-7}},
                                  {{1, 3}, {0, 1, 1}}},
                                 {DType::kF32, DType::kF32, DType::kI32});
  EXPECT_EQ(decode(got.outputs[2], {DType::kI32, {3}}).values, (std::vector<double>{1, -1, -1}));
}

TEST(HardSuppression, DropsWhatOverlaps) {
  check_op(
      {{"few", HardSuppression{3, 10, 0.5f, 0.2f, {30, 20}}, candidates(2, 7, 20, 30)},
       {"crowded", HardSuppression{5, 40, 0.3f, 0.1f, {25, 35}}, candidates(2, 400, 30, 99)},
       {"more than places", HardSuppression{5, 6, 0.9f, 0.0f, {99, 99}}, candidates(1, 50, 90, 99)},
       {"none above the least", HardSuppression{5, 6, 0.5f, 0.99f, {99, 99}},
        candidates(2, 5, 90, 99)}},
      hard_reference);
}

}  // namespace
}  // namespace assay::test
