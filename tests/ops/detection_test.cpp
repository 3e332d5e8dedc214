// Anchors, their matches and the loss of a detector, against efficientdet_d0's sheet and naive f64
// references.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tests/harness/op_case.h"

namespace assay::test {
namespace {

std::vector<double> anchors_of(const Anchors& p) {
  const double aspects[3][2] = {{1, 1}, {0.7, 1.4}, {1.4, 0.7}};
  std::vector<double> y;
  for (int64_t level = p.first_level; level <= p.last_level; ++level) {
    const double s = std::exp2(level);
    for (double row = s / 2; row < static_cast<double>(p.rows); row += s)
      for (double column = s / 2; column < static_cast<double>(p.columns); column += s)
        for (int octave = 0; octave < 3; ++octave)
          for (const auto& a : aspects) {
            const double base = static_cast<double>(p.scale) * s * std::exp2(octave / 3.0);
            const double h = base * a[0], w = base * a[1];
            y.insert(y.end(), {row - h / 2, column - w / 2, row + h / 2, column + w / 2});
          }
  }
  return y;
}

std::vector<Tensor> anchors_reference(const Op& op, const std::vector<Tensor>&) {
  Tensor y{{}, anchors_of(std::get<Anchors>(op))};
  y.dims = {static_cast<int64_t>(y.values.size() / 4), 4};
  return {y};
}

TEST(Anchors, NineACell) {
  check_op({{"square", Anchors{128, 128, 3, 7, 4}, {}},
            {"wide", Anchors{64, 160, 3, 5, 4}, {}},
            {"one level", Anchors{3, 5, 0, 0, 1.5f}, {}}},
           anchors_reference);
}

std::vector<double> values_of(const Op& op) {
  return decode(run_node(op, {}, {}).outputs[0], {DType::kF32, {49104, 4}}).values;
}

TEST(Anchors, AreThosePublished) {
  const std::vector<double> y = values_of(Anchors{512, 512});
  const auto expect_box = [&](size_t anchor, std::array<double, 4> box) {
    for (size_t k = 0; k < 4; ++k)
      EXPECT_FLOAT_EQ(static_cast<float>(y[4 * anchor + k]), static_cast<float>(box[k])) << anchor;
  };
  ASSERT_EQ(y.size(), 4u * 49104);
  expect_box(0, {-12, -12, 20, 20});
  expect_box(1, {-7.2, -18.4, 15.2, 26.4});
  expect_box(2, {-18.4, -7.2, 26.4, 15.2});
  expect_box(3, {-16.158737, -16.158737, 24.158737, 24.158737});
  expect_box(8, {-31.557783, -13.778892, 39.557785, 21.778893});
  expect_box(36864, {-24, -24, 40, 40});
  expect_box(39274, {100.442215, 112.88443, 171.55779, 255.11557});
  expect_box(49103, {-120.92454, 163.53773, 1016.92456, 732.4623});
}

// In f32, as which anchor wins depends on every comparison.
double overlap(const double* of_box, const double* of_anchor) {
  std::array<float, 4> a{}, b{};
  std::transform(of_box, of_box + 4, a.begin(), [](double v) { return static_cast<float>(v); });
  std::transform(of_anchor, of_anchor + 4, b.begin(),
                 [](double v) { return static_cast<float>(v); });
  const float rows = std::min(a[2], b[2]) - std::max(a[0], b[0]);
  const float columns = std::min(a[3], b[3]) - std::max(a[1], b[1]);
  if (rows <= 0 || columns <= 0) return 0;
  const float both = rows * columns;
  return static_cast<double>(
      both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both));
}

std::vector<Tensor> match_reference(const Op& op, const std::vector<Tensor>& x) {
  const int64_t images = x[0].dims[0], places = x[0].dims[1], anchors = x[2].dims[0];
  const auto threshold = static_cast<double>(std::get<MatchAnchors>(op).threshold);
  Tensor match{{images, anchors}, {}};
  double positives = 0;
  for (int64_t n = 0; n < images; ++n) {
    const auto given = static_cast<int64_t>(x[1].values[static_cast<size_t>(n)]);
    const int64_t count = std::min(given, places);
    const double* boxes = x[0].values.data() + n * places * 4;
    std::vector<double> row(static_cast<size_t>(anchors), count < 0 ? -2 : -1);
    for (int64_t a = 0; a < anchors; ++a) {
      double most = 0;
      for (int64_t g = 0; g < count; ++g) {
        const double o = overlap(boxes + 4 * g, x[2].values.data() + 4 * a);
        if (o > most && o >= threshold) row[static_cast<size_t>(a)] = static_cast<double>(g);
        most = std::max(most, o);
      }
    }
    for (int64_t g = count - 1; g >= 0; --g) {
      int64_t best = 0;
      double most = -1;
      for (int64_t a = 0; a < anchors; ++a) {
        const double o = overlap(boxes + 4 * g, x[2].values.data() + 4 * a);
        if (o > most) best = a;
        most = std::max(most, o);
      }
      row[static_cast<size_t>(best)] = static_cast<double>(g);
    }
    positives +=
        static_cast<double>(std::count_if(row.begin(), row.end(), [](double g) { return g >= 0; }));
    match.values.insert(match.values.end(), row.begin(), row.end());
  }
  return {match, {{}, {positives}}};
}

// Boxes on a grid of eighths, so that f32 and f64 overlap alike; some places stay empty.
Argument random_boxes(int64_t images, int64_t places, int size) {
  std::vector<double> values;
  uint32_t state = 12345u + static_cast<uint32_t>(places);
  const auto draw = [&](int below) {
    state = state * 1664525u + 1013904223u;
    return static_cast<double>((state >> 8) % static_cast<uint32_t>(below));
  };
  for (int64_t i = 0; i < images * places; ++i) {
    const double y = draw(size) + draw(8) / 8, x = draw(size) + draw(8) / 8;
    values.insert(values.end(), {y, x, y + 1 + draw(size), x + 1 + draw(size)});
  }
  return {{images, places, 4}, DType::kF32, Recipe::listed(values)};
}
Argument listed_anchors(const Anchors& p) {
  std::vector<double> y = anchors_of(p);
  const auto n = static_cast<int64_t>(y.size() / 4);
  return {{n, 4}, DType::kF32, Recipe::listed(std::move(y))};
}
Argument integers(Dims dims, std::vector<double> values) {
  return {dims, DType::kI32, Recipe::listed(std::move(values))};
}

TEST(MatchAnchors, EachAnchorItsBoxAndEachBoxItsAnchor) {
  const Anchors small{16, 24, 3, 3, 1}, large{128, 128, 3, 7, 4};
  check_op({{"some",
             MatchAnchors{0.5f},
             {random_boxes(3, 5, 16), integers({3}, {5, 0, 2}), listed_anchors(small)}},
            {"padding and too many",
             MatchAnchors{0.3f},
             {random_boxes(4, 3, 12), integers({4}, {-1, 3, 99, 1}), listed_anchors(small)}},
            {"many",
             MatchAnchors{0.5f},
             {random_boxes(2, 40, 90), integers({2}, {40, 17}), listed_anchors(large)}},
            {"one box, one anchor",
             MatchAnchors{0.5f},
             {random_boxes(1, 1, 4),
              integers({1}, {1}),
              {{1, 4}, DType::kF32, Recipe::listed({90, 90, 99, 99})}}},
            {"equal boxes and anchors",
             MatchAnchors{0.5f},
             {{{1, 3, 4}, DType::kF32, Recipe::listed({0, 0, 8, 8, 0, 0, 8, 8, 4, 4, 12, 12})},
              integers({1}, {3}),
              {{4, 4},
               DType::kF32,
               Recipe::listed({0, 0, 8, 8, 0, 0, 8, 8, 4, 4, 12, 12, 50, 50, 60, 60})}}}},
           match_reference);
}

TEST(MatchAnchors, OfTheSheetsBox) {
  Tensor anchors{{49104, 4}, anchors_of(Anchors{512, 512})};
  const RunResult got =
      run_node(MatchAnchors{0.5f}, {{{1, 1, 4}, {100, 120, 180, 260}}, {{1}, {1}}, anchors},
               {DType::kF32, DType::kI32, DType::kF32});
  const auto match = decode(got.outputs[0], {DType::kI32, {1, 49104}}).values;
  EXPECT_EQ(decode(got.outputs[1], {DType::kF32, {}}).values[0], 36);
  EXPECT_EQ(match[39274], 0);
  EXPECT_EQ(match[0], -1);
}

// ---- Loss ---------------------------------------------------------------------------------------

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

// The four codes of a box, as the sheet has them.
std::array<double, 4> codes_of(const double* a, const double* b) {
  const double ha = std::max(a[2] - a[0], 1e-8), wa = std::max(a[3] - a[1], 1e-8);
  const double h = std::max(b[2] - b[0], 1e-8), w = std::max(b[3] - b[1], 1e-8);
  return {((b[0] + b[2]) / 2 - (a[0] + a[2]) / 2) / ha,
          ((b[1] + b[3]) / 2 - (a[1] + a[3]) / 2) / wa, std::log(h / ha), std::log(w / wa)};
}

std::vector<Tensor> loss_reference(const Op& op, const std::vector<Tensor>& x) {
  const auto& p = std::get<DetectionLoss>(op);
  const size_t levels = (x.size() - 5) / 2, after = 2 * levels;
  const int64_t images = x[after].dims[0], places = x[after].dims[1];
  const int64_t anchors = x[after + 2].dims[0];
  double classes = 0, boxes = 0;
  for (int64_t n = 0; n < images; ++n) {
    int64_t a = 0;
    for (size_t level = 0; level < levels; ++level) {
      const int64_t count = x[levels + level].dims.numel() / images / 4;
      const int64_t c_count = x[level].dims.numel() / images / count;
      for (int64_t i = 0; i < count; ++i, ++a) {
        const auto g =
            static_cast<int64_t>(x[after + 3].values[static_cast<size_t>(n * anchors + a)]);
        if (g == -2) continue;
        const double label = g < 0 ? -1 : x[after + 1].values[static_cast<size_t>(n * places + g)];
        for (int64_t c = 0; c < c_count; ++c) {
          const double v = x[level].values[static_cast<size_t>((n * count + i) * c_count + c)];
          const bool hit = static_cast<double>(c) == label;
          const double u = hit ? v : -v, alpha = static_cast<double>(p.alpha);
          classes += (hit ? alpha : 1 - alpha) *
                     std::exp(-static_cast<double>(p.gamma) * softplus(u)) * softplus(-u);
        }
        if (g < 0) continue;
        const auto target = codes_of(x[after + 2].values.data() + 4 * a,
                                     x[after].values.data() + 4 * (n * places + g));
        for (size_t k = 0; k < 4; ++k) {
          const double code =
              x[levels + level].values[static_cast<size_t>((n * count + i) * 4) + k];
          const double e = std::abs(code - target[k]), d = static_cast<double>(p.delta);
          if (target[k] != 0) boxes += e <= d ? e * e / 2 : d * (e - d / 2);
        }
      }
    }
  }
  const double n = x[after + 4].values[0] + 1;
  classes /= n;
  boxes /= 4 * n;
  return {
      {{}, {classes + static_cast<double>(p.box_weight) * boxes}}, {{}, {classes}}, {{}, {boxes}}};
}

// Levels of 2 x 3 and 1 x 2 cells with two anchors of five classes, of two images.
OpCase loss_case(std::string name, std::vector<double> match) {
  OpCase c{
      std::move(name),
      DetectionLoss{0.25f, 1.5f, 0.1f, 50},
      {{{2, 2, 3, 10}, {}, Recipe::uniform(-5, 3)},
       {{2, 1, 2, 10}, {}, Recipe::uniform(-5, 3)},
       {{2, 2, 3, 8}, {}, Recipe::uniform(-1, 1)},
       {{2, 1, 2, 8}, {}, Recipe::uniform(-1, 1)},
       {{2, 3, 4}, DType::kF32, Recipe::listed({0, 0, 9, 7, 4, 2, 30, 11, 5, 5, 9,  9,
                                                1, 1, 2, 3, 8, 8, 24, 40, 0, 3, 19, 5})},
       {{2, 3}, DType::kI32, Recipe::listed({4, 0, 2, 1, 3, 3})},
       {{16, 4}, DType::kF32, Recipe::listed({0,  0,  8,  8,  -1, -5, 9,  13, 0,  8,  8,  16, -1,
                                              3,  9,  21, 0,  16, 8,  24, -1, 11, 9,  29, 8,  0,
                                              16, 8,  7,  -5, 17, 13, 8,  8,  16, 16, 7,  3,  17,
                                              21, 8,  16, 16, 24, 7,  11, 17, 29, 0,  0,  16, 16,
                                              -9, -2, 25, 18, 0,  16, 16, 32, -9, 14, 25, 34})},
       {{2, 16}, DType::kI32, Recipe::listed(match)},
       {{}, DType::kF32, {}}}};
  const auto positives = std::count_if(match.begin(), match.end(), [](double g) { return g >= 0; });
  c.inputs.back().recipe = Recipe::listed({static_cast<double>(positives)});
  c.accuracy = {.terms = 160, .magnitude = 2, .ulps = 16};
  c.gradients = {0, 1, 2, 3};
  return c;
}

TEST(DetectionLoss, ValuesAndGradients) {
  std::vector<double> none(32, -1), some = none, padded = none;
  some[3] = 0, some[4] = 1, some[12] = 2, some[15] = 0, some[16] = 1, some[31] = 2, some[20] = 0;
  padded = some;
  std::fill(padded.begin() + 16, padded.end(), -2.0);
  check_op({loss_case("no boxes", none), loss_case("boxes", some),
            loss_case("an image of padding", padded)},
           loss_reference);
}

// Enough pairs that ranges are summed apart.
TEST(DetectionLoss, ManyClasses) {
  const int64_t cells = 20, anchors = cells * cells;
  std::vector<double> match(static_cast<size_t>(anchors), -1), boxes;
  for (size_t a = 5; a < match.size(); a += 17) match[a] = 0;
  for (int64_t a = 0; a < anchors; ++a) {
    const double y = static_cast<double>(a / cells), x = static_cast<double>(a % cells);
    boxes.insert(boxes.end(), {y, x, y + 3, x + 5});
  }
  const auto positives = std::count(match.begin(), match.end(), 0.0);
  OpCase c{"91 classes",
           DetectionLoss{},
           {{{1, cells, cells, 91}, {}, Recipe::uniform(-6, 2)},
            {{1, cells, cells, 4}, {}, Recipe::uniform(-1, 1)},
            {{1, 1, 4}, DType::kF32, Recipe::listed({3, 4, 9, 14})},
            {{1, 1}, DType::kI32, Recipe::listed({89})},
            {{anchors, 4}, DType::kF32, Recipe::listed(boxes)},
            {{1, anchors}, DType::kI32, Recipe::listed(match)},
            {{}, DType::kF32, Recipe::listed({static_cast<double>(positives)})}},
           {.terms = 100, .ulps = 16}};
  check_op(c, loss_reference);
}

// One pair, one anchor, N = 1.
double class_loss_of(double logit, bool hit) {
  const RunResult got = run_node(
      DetectionLoss{},
      {{{1, 1, 1, 1}, {logit}},
       {{1, 1, 1, 4}, {0, 0, 0, 0}},
       {{1, 1, 4}, {0, 0, 8, 8}},
       {{1, 1}, {0}},
       {{1, 4}, {0, 0, 8, 8}},
       {{1, 1}, {hit ? 0.0 : -1.0}},
       {{}, {0}}},
      {DType::kF32, DType::kF32, DType::kF32, DType::kI32, DType::kF32, DType::kI32, DType::kF32});
  return decode(got.outputs[1], {DType::kF32, {}}).values[0];
}

TEST(DetectionLoss, NumbersOfTheSheet) {
  const auto expect_loss = [](double logit, bool hit, double loss) {  // to 4 units in f32
    EXPECT_NEAR(class_loss_of(logit, hit), loss, 4 * 0x1p-24 * loss + 0.5e-8 * (loss > 1e-4));
  };
  expect_loss(0, true, 0.06126613);
  expect_loss(0, false, 0.18379840);
  expect_loss(-4.59511985, true, 1.13406640);
  const double of_negative = class_loss_of(-4.59511985, false);
  EXPECT_NEAR(of_negative, 7.53775e-6, 0.5e-11);
  EXPECT_NEAR(49104 * 91 * of_negative, 33.68, 0.5e-2);  // of an image before training
  expect_loss(2, true, 0.00130595);
  expect_loss(2, false, 1.31864488);
  EXPECT_EQ(class_loss_of(1000, true), 0);
  EXPECT_EQ(class_loss_of(-1e30, false), 0);
  EXPECT_FLOAT_EQ(static_cast<float>(class_loss_of(-1e30, true)), 0.25e30f);
}

// Targets 0.05, 0, -0.3 and 0.2 of the sheet; the second coordinate does not count.
TEST(DetectionLoss, HuberOfTheSheet) {
  const double h = 10 * std::exp(-0.3), w = 10 * std::exp(0.2);
  const RunResult got = run_node(
      DetectionLoss{},
      {{{1, 1, 1, 1}, {0}},
       {{1, 1, 1, 4}, {0, 0.5, -0.25, 0.5}},
       {{1, 1, 4}, {5.5 - h / 2, 5 - w / 2, 5.5 + h / 2, 5 + w / 2}},
       {{1, 1}, {0}},
       {{1, 4}, {0, 0, 10, 10}},
       {{1, 1}, {0}},
       {{}, {1}}},
      {DType::kF32, DType::kF32, DType::kF32, DType::kI32, DType::kF32, DType::kI32, DType::kF32});
  EXPECT_NEAR(decode(got.outputs[2], {DType::kF32, {}}).values[0], 0.0034375, 1e-7);
}

TEST(DetectionLoss, AClassThatThereIsNotGivesNaN) {
  for (const double label : {-1.0, 1.0, 2147483647.0}) {
    const RunResult got = run_node(DetectionLoss{},
                                   {{{1, 1, 1, 1}, {0}},
                                    {{1, 1, 1, 4}, {0, 0, 0, 0}},
                                    {{1, 1, 4}, {0, 0, 8, 8}},
                                    {{1, 1}, {label}},
                                    {{1, 4}, {0, 0, 8, 8}},
                                    {{1, 1}, {0}},
                                    {{}, {1}}},
                                   {DType::kF32, DType::kF32, DType::kF32, DType::kI32, DType::kF32,
                                    DType::kI32, DType::kF32});
    EXPECT_TRUE(std::isnan(decode(got.outputs[0], {DType::kF32, {}}).values[0])) << label;
  }
}

}  // namespace
}  // namespace assay::test
