// SoftTargetCrossEntropy, SoftDiceLoss and their gradients.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/harness/op_case.h"

namespace assay::test {
namespace {

double squared(double x) { return x * x; }

// softmax over the classes of every pixel, [N * P * C] like x.
std::vector<double> softmax(const Tensor& x) {
  const auto classes = static_cast<size_t>(x.dims.back());
  std::vector<double> p = x.values;
  for (size_t row = 0; row < p.size(); row += classes) {
    const double largest = *std::max_element(p.begin() + row, p.begin() + row + classes);
    double sum = 0;
    for (size_t c = 0; c < classes; ++c) sum += p[row + c] = std::exp(p[row + c] - largest);
    for (size_t c = 0; c < classes; ++c) p[row + c] /= sum;
  }
  return p;
}

std::vector<Tensor> cross_entropy_reference(const Op& op, const std::vector<Tensor>& x) {
  const double images = static_cast<double>(x[0].dims[0]);
  const double pixels = static_cast<double>(x[0].dims.numel() / x[0].dims.back()) / images;
  const std::vector<double> p = softmax(x[0]);
  double loss = 0;
  for (size_t i = 0; i < p.size(); ++i) loss -= x[1].values[i] * std::log(p[i]) / pixels;
  return {{{}, {std::get<SoftTargetCrossEntropy>(op).mean ? loss / images : loss}}};
}

std::vector<Tensor> dice_reference(const Op& op, const std::vector<Tensor>& x) {
  const auto& o = std::get<SoftDiceLoss>(op);
  const auto images = static_cast<size_t>(x[0].dims[0]);
  const auto classes = static_cast<size_t>(x[0].dims.back());
  const std::vector<double> p = softmax(x[0]);
  const std::vector<double>& t = x[1].values;
  Tensor sums{{x[0].dims[0], 3, x[0].dims.back()}, std::vector<double>(images * 3 * classes)};
  for (size_t i = 0; i < p.size(); ++i) {
    double* image = &sums.values[i / (p.size() / images) * 3 * classes];
    const size_t c = i % classes;
    image[c] += p[i] * t[i];
    image[classes + c] += squared(p[i]);
    image[2 * classes + c] += squared(t[i]);
  }
  double loss = 0;
  for (size_t n = 0; n < images; ++n) {
    const double* image = &sums.values[n * 3 * classes];
    double missed = 0, target = 0;
    for (size_t c = 0; c < classes; ++c) {
      const double e = static_cast<double>(o.epsilon);
      target += image[2 * classes + c];
      missed += 1 - (2 * image[c] + e) / (image[classes + c] + image[2 * classes + c] + e);
    }
    if (target > 0) loss += missed / static_cast<double>(classes);
  }
  return {{{}, {o.mean ? loss / static_cast<double>(images) : loss}}, sums};
}

const std::vector<Dims> kShapes{{1, 1},       {1, 4, 2},      {2, 3, 5, 2},
                                {3, 7, 1, 5}, {2, 50, 52, 2}, {1, 70, 33, 3}};

Argument logits_of(const Dims& dims) { return {dims, {}, Recipe::uniform(-4, 4)}; }
Argument target_of(const Dims& dims) { return {dims, DType::kF32, Recipe::integer(0, 1)}; }

TEST(SoftTargetCrossEntropy, ValuesAndGradients) {
  for (const Dims& dims : kShapes) {
    for (const bool mean : {false, true}) {
      check_op({to_text(dims),
                SoftTargetCrossEntropy{mean},
                {logits_of(dims), target_of(dims)},
                {.terms = dims.back(), .magnitude = 8, .ulps = 16},
                {0}},
               cross_entropy_reference);
    }
  }
}

TEST(SoftDiceLoss, ValuesAndGradients) {
  for (const Dims& dims : kShapes) {
    for (const bool mean : {false, true}) {
      const double pixels = static_cast<double>(dims.numel() / dims[0] / dims.back());
      check_op({to_text(dims),
                SoftDiceLoss{1e-6f, mean},
                {logits_of(dims), target_of(dims)},
                {.terms = dims.back(), .magnitude = pixels, .ulps = 16},
                {0}},
               dice_reference);
    }
  }
}

// Gradients of single pixels are far smaller than the losses, and so is their tolerance here.
TEST(SoftTargetCrossEntropyGrad, IsSoftmaxMinusTarget) {
  const Reference reference = [](const Op& op, const std::vector<Tensor>& x) {
    const auto classes = static_cast<size_t>(x[0].dims.back());
    const double images = static_cast<double>(x[0].dims[0]);
    const double pixels = static_cast<double>(x[0].dims.numel() / x[0].dims.back()) / images;
    const double factor =
        x[2].values[0] / pixels / (std::get<SoftTargetCrossEntropyGrad>(op).mean ? images : 1);
    Tensor dx{x[0].dims, softmax(x[0])};
    for (size_t row = 0; row < dx.values.size(); row += classes) {
      double weight = 0;
      for (size_t c = 0; c < classes; ++c) weight += x[1].values[row + c];
      for (size_t c = 0; c < classes; ++c)
        dx.values[row + c] = factor * (dx.values[row + c] * weight - x[1].values[row + c]);
    }
    return std::vector<Tensor>{dx};
  };
  for (const Dims& dims : kShapes) {
    for (const bool mean : {false, true}) {
      const Argument dloss{{}, DType::kF32, Recipe::listed({0.75})};
      const double pixels = static_cast<double>(dims.numel() / dims[0] / dims.back());
      check_op({to_text(dims),
                SoftTargetCrossEntropyGrad{mean},
                {logits_of(dims), target_of(dims), dloss},
                {.terms = dims.back(),
                 .magnitude = 1 / pixels / (mean ? static_cast<double>(dims[0]) : 1),
                 .ulps = 16}},
               reference);
    }
  }
}

TEST(SoftDiceLossGrad, IsTheDerivativeByThePixel) {
  const Reference reference = [](const Op& op, const std::vector<Tensor>& x) {
    const auto& o = std::get<SoftDiceLossGrad>(op);
    const auto images = static_cast<size_t>(x[0].dims[0]);
    const auto classes = static_cast<size_t>(x[0].dims.back());
    const double e = static_cast<double>(o.epsilon);
    const std::vector<double> p = softmax(x[0]);
    const double scale = x[3].values[0] / static_cast<double>(classes * (o.mean ? images : 1));
    Tensor dx{x[0].dims, std::vector<double>(p.size())};
    for (size_t row = 0; row < p.size(); row += classes) {
      const double* sums = &x[2].values[row / (p.size() / images) * 3 * classes];
      std::vector<double> g(classes);
      double mean = 0;
      for (size_t c = 0; c < classes; ++c) {
        const double below = sums[classes + c] + sums[2 * classes + c] + e;
        g[c] = -scale * (2 * x[1].values[row + c] / below -
                         (2 * sums[c] + e) * 2 * p[row + c] / squared(below));
        mean += p[row + c] * g[c];
      }
      for (size_t c = 0; c < classes; ++c) dx.values[row + c] = p[row + c] * (g[c] - mean);
    }
    return std::vector<Tensor>{dx};
  };
  for (const Dims& dims : kShapes) {
    const double pixels = static_cast<double>(dims.numel() / dims[0] / dims.back());
    const Argument sums{
        {dims[0], 3, dims.back()}, DType::kF32, Recipe::uniform(0.2 * pixels, pixels)};
    const Argument dloss{{}, DType::kF32, Recipe::listed({-1.5})};
    check_op({to_text(dims),
              SoftDiceLossGrad{1e-6f, true},
              {logits_of(dims), target_of(dims), sums, dloss},
              {.terms = dims.back(), .magnitude = 4 / pixels, .ulps = 16}},
             reference);
  }
}

struct Losses {
  double cross_entropy, dice;
  std::vector<double> sums;
};
Losses losses_of(const Tensor& logits, const Tensor& target, bool mean) {
  const std::vector<DType> types{DType::kF32, DType::kF32};
  const RunResult ce = run_node(SoftTargetCrossEntropy{mean}, {logits, target}, types);
  const RunResult dice = run_node(SoftDiceLoss{1e-6f, mean}, {logits, target}, types);
  const Dims sums{logits.dims[0], 3, logits.dims.back()};
  return {decode(ce.outputs[0], {DType::kF32, {}}).values[0],
          decode(dice.outputs[0], {DType::kF32, {}}).values[0],
          decode(dice.outputs[1], {DType::kF32, sums}).values};
}

const std::vector<double> kFirst{0, 0, 2, 0, 0, 2, -1, 1}, kFirstTarget{1, 0, 1, 0, 0, 1, 0, 1};
const std::vector<double> kSecond{3, 0, 0, 3, 0, 3, 0, 3}, kSecondTarget{1, 0, 0, 1, 0, 1, 1, 0};

// One image of four pixels, computed by hand: U-Net's score is 1 - dice.
TEST(SoftDiceLoss, OneImageOfFourPixels) {
  const Losses got = losses_of({{1, 4, 2}, kFirst}, {{1, 4, 2}, kFirstTarget}, true);
  EXPECT_NEAR(got.cross_entropy, 0.26848280, 5e-8);
  EXPECT_NEAR(got.dice, 0.08624955, 5e-8);
  EXPECT_NEAR(got.cross_entropy + got.dice, 0.35473236, 1e-7);
  EXPECT_NEAR(got.sums[0], 1.38079708, 2e-7);
  EXPECT_NEAR(got.sums[1], 1.76159416, 2e-7);
  EXPECT_NEAR(got.sums[2] + got.sums[4], 3.05422217, 4e-7);
  EXPECT_NEAR(got.sums[3] + got.sums[5], 3.81581632, 4e-7);
}

// Where the published learning curve begins: an undecided network, 78 % of the pixels of class 1.
TEST(SoftDiceLoss, AnUndecidedNetwork) {
  std::vector<double> target;
  for (int pixel = 0; pixel < 100; ++pixel) {
    target.push_back(pixel < 22 ? 1 : 0);
    target.push_back(pixel < 22 ? 0 : 1);
  }
  const Losses got =
      losses_of({{1, 100, 2}, std::vector<double>(200, 0)}, {{1, 100, 2}, target}, true);
  EXPECT_NEAR(got.cross_entropy, 0.6931, 5e-5);
  EXPECT_NEAR(got.dice, 0.3873, 5e-5);
  EXPECT_NEAR(got.cross_entropy + got.dice, 1.0805, 5e-5);
}

// Two images: per image first, then the mean; not over the pixels of the batch.
TEST(SoftDiceLoss, TwoImagesAreAveragedPerImage) {
  std::vector<double> logits = kFirst, target = kFirstTarget;
  logits.insert(logits.end(), kSecond.begin(), kSecond.end());
  target.insert(target.end(), kSecondTarget.begin(), kSecondTarget.end());
  const Losses mean = losses_of({{2, 4, 2}, logits}, {{2, 4, 2}, target}, true);
  EXPECT_NEAR(mean.dice, 1 - 0.83007898, 1e-7);
  EXPECT_NEAR(mean.cross_entropy, 0.53353508, 1e-7);
  EXPECT_NEAR(mean.dice + mean.cross_entropy, 0.70345610, 1e-7);
  const Losses sum = losses_of({{2, 4, 2}, logits}, {{2, 4, 2}, target}, false);
  EXPECT_NEAR(sum.dice, 2 * mean.dice, 2e-7);
  EXPECT_NEAR(sum.cross_entropy, 2 * mean.cross_entropy, 2e-7);
}

TEST(SoftDiceLoss, PaddingAddsNothing) {
  std::vector<double> logits = kFirst, target = kFirstTarget;
  logits.insert(logits.end(), kSecond.begin(), kSecond.end());
  target.insert(target.end(), 8, 0.0);
  const Losses one = losses_of({{1, 4, 2}, kFirst}, {{1, 4, 2}, kFirstTarget}, false);
  const Losses padded = losses_of({{2, 4, 2}, logits}, {{2, 4, 2}, target}, false);
  EXPECT_EQ(padded.dice, one.dice);
  EXPECT_EQ(padded.cross_entropy, one.cross_entropy);
}

TEST(SoftTargetCrossEntropy, NaNAndHugeLogits) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(losses_of({{1, 1, 2}, {nan, 0}}, {{1, 1, 2}, {0, 1}}, true).dice));
  EXPECT_TRUE(
      std::isnan(losses_of({{1, 1, 2}, {nan, 0}}, {{1, 1, 2}, {0, 1}}, true).cross_entropy));
  const Losses sure = losses_of({{1, 1, 2}, {1e30, 0}}, {{1, 1, 2}, {1, 0}}, true);
  EXPECT_EQ(sure.cross_entropy, 0);
  EXPECT_NEAR(sure.dice, 0, 1e-6);
}

}  // namespace
}  // namespace assay::test
