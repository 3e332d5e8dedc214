// ImageFromBytes, MixRows, MixTargets, CountTargets: against f64 references, and to the bit against
// what the CPU's loader makes of the same bytes and what plain f32 loops make of the same rows.
#include <gtest/gtest.h>

#include <cstring>

#include "sdk/base/philox.h"
#include "sdk/base/pixel_levels.h"
#include "sdk/data/augment/image.h"
#include "tests/harness/op_case.h"

namespace assay::test {
namespace {

// ---- Images ----

struct ImageCase {
  int64_t rows, height, width, channels, target_channels;
};

ImageFromBytes op_of(const ImageCase& c) {
  return {.channels = c.target_channels,
          .scale = 1.0f / 255.0f,
          .mean = {0.45f, 0.5f, 0.1f, 0.2f},
          .stddev = {0.225f, 0.3f, 0.25f, 0.2f}};
}

std::vector<ImageCase> image_cases() {
  return {{1, 1, 1, 1, 1},   {3, 7, 5, 1, 1}, {4, 9, 8, 3, 3},   {5, 6, 11, 3, 4},
          {2, 17, 19, 4, 4}, {3, 4, 6, 2, 3}, {2, 40, 150, 3, 3}};
}

// Placements as augmentation draws them, and some that leave nothing of the image.
Tensor placements(const ImageCase& c) {
  PhiloxStream random(7, 1);
  Tensor tensor{{c.rows, 4}, {}};
  for (int64_t n = 0; n < c.rows; ++n) {
    const auto reach = static_cast<uint32_t>(2 * c.height + 3);
    tensor.values.push_back(static_cast<double>(random.below(reach)) -
                            static_cast<double>(c.height) - 1);
    tensor.values.push_back(n == 2 ? static_cast<double>(c.width) + 1
                                   : static_cast<double>(random.below(5)) - 2);
    tensor.values.push_back(random.below(2));
    tensor.values.push_back(random.below(2));
  }
  return tensor;
}

std::vector<Tensor> image_reference(const Op& op, const std::vector<Tensor>& x) {
  const auto& p = std::get<ImageFromBytes>(op);
  const Dims& in = x[0].dims;
  Tensor y{{in[0], in[1], in[2], p.channels}, {}};
  for (int64_t n = 0; n < in[0]; ++n) {
    const double* place = &x[1].values[static_cast<size_t>(4 * n)];
    for (int64_t i = 0; i < in[1]; ++i) {
      for (int64_t j = 0; j < in[2]; ++j) {
        const auto row = (place[2] != 0 ? in[1] - 1 - i : i) + static_cast<int64_t>(place[0]);
        const auto column = (place[3] != 0 ? in[2] - 1 - j : j) + static_cast<int64_t>(place[1]);
        const bool inside = row >= 0 && row < in[1] && column >= 0 && column < in[2];
        for (int64_t c = 0; c < p.channels; ++c) {
          const auto at = static_cast<size_t>(((n * in[1] + row) * in[2] + column) * in[3] + c);
          const auto k = static_cast<size_t>(c);
          const double byte = inside && c < in[3] ? x[0].values[at] : 0;
          y.values.push_back(
              c < in[3] ? (byte * static_cast<double>(p.scale) - static_cast<double>(p.mean[k])) /
                              static_cast<double>(p.stddev[k])
                        : 0);
        }
      }
    }
  }
  return {y};
}

TEST(ImageFromBytes, PlacesAndScales) {
  for (const ImageCase& c : image_cases()) {
    const Dims dims{c.rows, c.height, c.width, c.channels};
    check_op({.name = to_text(dims),
              .op = op_of(c),
              .inputs = {{dims, DType::kU8, Recipe::integer(0, 255)},
                         {{c.rows, 4}, DType::kI32, Recipe::listed(placements(c).values)}},
              .accuracy = {.magnitude = 4, .ulps = 3},
              .dtypes = {DType::kF32}},
             image_reference);
  }
}

// What the CPU's loader makes of it: translate, flip, look up.
std::vector<float> by_the_loader(const ImageCase& c, const Tensor& pixels, const Tensor& place) {
  const data::ImageShape shape{static_cast<int>(c.height), static_cast<int>(c.width),
                               static_cast<int>(c.channels)};
  const ImageFromBytes op = op_of(c);
  const std::vector<uint8_t> bytes(pixels.values.begin(), pixels.values.end());
  std::vector<float> images;
  std::vector<uint8_t> moved(static_cast<size_t>(shape.values()));
  for (int64_t n = 0; n < c.rows; ++n) {
    const double* p = &place.values[static_cast<size_t>(4 * n)];
    data::translate<uint8_t>(bytes.data() + n * shape.values(), shape, static_cast<int>(p[0]),
                             static_cast<int>(p[1]), 0, moved.data());
    if (p[3] != 0) data::flip_horizontal(moved.data(), shape);
    if (p[2] != 0) data::flip_vertical(moved.data(), shape);
    for (int i = 0; i < shape.pixels(); ++i) {
      for (int64_t k = 0; k < c.target_channels; ++k) {
        const auto channel = static_cast<size_t>(k);
        images.push_back(k < c.channels
                             ? pixel_level(moved[static_cast<size_t>(i * c.channels + k)], op.scale,
                                           op.mean[channel], op.stddev[channel])
                             : 0);
      }
    }
  }
  return images;
}

TEST(ImageFromBytes, HasTheBitsOfTheLoader) {
  for (const ImageCase& c : image_cases()) {
    PhiloxStream random(3, 1);
    Tensor pixels{{c.rows, c.height, c.width, c.channels}, {}};
    for (int64_t i = 0; i < pixels.dims.numel(); ++i) pixels.values.push_back(random.below(256));
    const std::vector<float> expected = by_the_loader(c, pixels, placements(c));
    const RunResult result =
        run_node(op_of(c), {pixels, placements(c)}, {DType::kU8, DType::kI32}, {.threads = 2});
    ASSERT_EQ(result.outputs[0].size(), expected.size() * sizeof(float));
    EXPECT_EQ(std::memcmp(result.outputs[0].data(), expected.data(), result.outputs[0].size()), 0)
        << to_text(pixels.dims);
  }
}

// ---- Rows and targets ----

std::vector<Tensor> mix_reference(const Op&, const std::vector<Tensor>& x) {
  Tensor y{x[0].dims, x[0].values};
  const auto rows = static_cast<size_t>(x[0].dims[0]), elems = x[0].values.size() / rows;
  for (size_t n = 0; n < rows; ++n) {
    for (size_t i = 0; i < elems; ++i) {
      const double w = x[1].values[n];
      y.values[n * elems + i] =
          w * x[0].values[n * elems + i] + (1 - w) * x[0].values[(rows - 1 - n) * elems + i];
    }
  }
  return {y};
}

TEST(MixRows, MixesWithTheRowOpposite) {
  for (const Dims& dims : {Dims{1, 3}, Dims{5}, Dims{4, 7, 5, 3}, Dims{3, 20011}}) {
    check_op({.name = to_text(dims),
              .op = MixRows{},
              .inputs = {{dims}, {{dims[0]}, {}, Recipe::uniform(0, 1)}},
              .accuracy = {.terms = 2, .magnitude = 1},
              .dtypes = {DType::kF32}},
             mix_reference);
  }
}

std::vector<Tensor> mix_targets_reference(const Op& op, const std::vector<Tensor>& x) {
  const auto& p = std::get<MixTargets>(op);
  const auto smoothing = static_cast<double>(p.label_smoothing);
  const auto rows = x[0].values.size();
  Tensor y{{x[0].dims[0], p.classes}, {}};
  for (size_t n = 0; n < rows; ++n) {
    for (int64_t k = 0; k < p.classes; ++k) {
      const double w = x[1].values[n];
      const auto target = [&](double label) {
        return smoothing / static_cast<double>(p.classes) +
               (label == static_cast<double>(k) ? 1 - smoothing : 0);
      };
      y.values.push_back(w * target(x[0].values[n]) + (1 - w) * target(x[0].values[rows - 1 - n]));
    }
  }
  return {y};
}

TEST(MixTargets, MixesSmoothedTargets) {
  for (const auto& [rows, classes, smoothing] :
       {std::tuple{1, 2, 0.0f}, {7, 10, 0.1f}, {64, 1000, 0.1f}}) {
    check_op({.name = cat(rows, " of ", classes),
              .op = MixTargets{classes, smoothing},
              .inputs = {{{rows}, DType::kI32, Recipe::integer(0, classes - 1)},
                         {{rows}, {}, Recipe::uniform(0, 1)}},
              .accuracy = {.terms = 3, .magnitude = 1},
              .dtypes = {DType::kF32}},
             mix_targets_reference);
  }
}

// The same formulas in f32, to the bit: training on mixed batches has the bits it always had.
TEST(Mix, HasTheBitsOfPlainLoops) {
  constexpr int64_t kRows = 6, kElems = 11, kClasses = 5;
  PhiloxStream random(5, 2);
  Tensor x{{kRows, kElems}, {}}, w{{kRows}, {}}, labels{{kRows}, {}};
  for (int64_t i = 0; i < kRows * kElems; ++i)
    x.values.push_back(static_cast<double>(random.uniform(-2, 2)));
  for (int64_t n = 0; n < kRows; ++n) {
    w.values.push_back(static_cast<double>(random.uniform(0, 1)));
    labels.values.push_back(random.below(kClasses));
  }
  const auto f32 = [](const Tensor& t, int64_t i) {
    return static_cast<float>(t.values[static_cast<size_t>(i)]);
  };
  std::vector<float> rows, targets(kRows * kClasses);
  constexpr float kSmoothing = 0.1f;
  for (int64_t n = 0; n < kRows; ++n) {
    const float weight = f32(w, n);
    for (int64_t i = 0; i < kElems; ++i) {
      rows.push_back(weight * f32(x, n * kElems + i) +
                     (1 - weight) * f32(x, (kRows - 1 - n) * kElems + i));
    }
    float* row = &targets[static_cast<size_t>(n * kClasses)];
    std::fill_n(row, kClasses, kSmoothing / static_cast<float>(kClasses));
    row[static_cast<int64_t>(f32(labels, n))] += weight * (1 - kSmoothing);
    row[static_cast<int64_t>(f32(labels, kRows - 1 - n))] += (1 - weight) * (1 - kSmoothing);
  }
  const auto expect_bits = [](const RunResult& result, const std::vector<float>& expected) {
    ASSERT_EQ(result.outputs[0].size(), expected.size() * sizeof(float));
    EXPECT_EQ(std::memcmp(result.outputs[0].data(), expected.data(), result.outputs[0].size()), 0);
  };
  expect_bits(run_node(MixRows{}, {x, w}, {DType::kF32, DType::kF32}), rows);
  expect_bits(run_node(MixTargets{kClasses, kSmoothing}, {labels, w}, {DType::kI32, DType::kF32}),
              targets);
}

// ---- Counts ----

TEST(CountTargets, CountsLabelsThatAreNotNegative) {
  for (const Dims& dims : {Dims{1}, Dims{37}, Dims{4, 9}, Dims{20000}}) {
    check_op({.name = to_text(dims),
              .op = CountTargets{},
              .inputs = {{dims, DType::kI32, Recipe::integer(-1, 3)}},
              .dtypes = {DType::kF32}},
             [](const Op&, const std::vector<Tensor>& x) {
               const auto counts = [](double label) { return label >= 0; };
               return std::vector<Tensor>{{{},
                                           {static_cast<double>(std::count_if(
                                               x[0].values.begin(), x[0].values.end(), counts))}}};
             });
  }
}

TEST(CountTargets, CountsRowsThatAreNotZero) {
  for (const int64_t elems : {int64_t{1}, int64_t{6}, int64_t{9001}}) {
    constexpr int64_t kRows = 5;
    std::vector<double> values(static_cast<size_t>(kRows * elems), 0.0);
    values[0] = 0.5;                                              // the first of row 0
    values[static_cast<size_t>(3 * elems + elems - 1)] = -1e-30;  // the last of row 3
    check_op({.name = cat(elems, " a row"),
              .op = CountTargets{},
              .inputs = {{{kRows, elems}, DType::kF32, Recipe::listed(values)}},
              .dtypes = {DType::kF32}},
             [](const Op&, const std::vector<Tensor>&) {
               return std::vector<Tensor>{{{}, {2.0}}};
             });
  }
}

}  // namespace
}  // namespace assay::test
