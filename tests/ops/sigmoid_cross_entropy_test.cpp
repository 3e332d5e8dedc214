// SigmoidCrossEntropy and its gradient.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/harness/op_case.h"

namespace assay::test {
namespace {

std::vector<Tensor> reference(const Op& op, const std::vector<Tensor>& x) {
  double loss = 0, count = 0;
  for (size_t i = 0; i < x[0].values.size(); ++i) {
    const double v = x[0].values[i], target = x[1].values[i];
    if (target == -1) continue;
    loss += std::log1p(std::exp(-std::abs(v))) + std::max(v, 0.0) - v * target;
    ++count;
  }
  const double epsilon = std::get<SigmoidCrossEntropy>(op).epsilon;
  return {{{}, {loss / (count + epsilon)}}, {{}, {count}}};
}

TEST(SigmoidCrossEntropy, ValuesAndGradients) {
  for (const int64_t n : {1, 2, 7, 100, 3000, 20000}) {
    OpCase c{cat(n),
             SigmoidCrossEntropy{1e-6f},
             {{{n}, {}, Recipe::uniform(-9, 9)}, {{n}, DType::kI32, Recipe::integer(-1, 1)}}};
    c.accuracy = {.terms = 1, .magnitude = 5, .ulps = 16};
    c.gradients = {0};
    check_op(c, reference);
  }
}

// The gradient's own tolerance above is that of the loss; here it is that of one probability.
TEST(SigmoidCrossEntropyGrad, IsSigmoidMinusTarget) {
  const Reference gradient = [](const Op&, const std::vector<Tensor>& x) {
    Tensor dx{x[0].dims, {}};
    for (size_t i = 0; i < x[0].values.size(); ++i) {
      const double target = x[1].values[i];
      const double wrong = 1 / (1 + std::exp(-x[0].values[i])) - target;
      dx.values.push_back(target == -1 ? 0 : x[2].values[0] / (x[3].values[0] + 0.5) * wrong);
    }
    return std::vector<Tensor>{dx};
  };
  for (const int64_t n : {1, 33, 3000})
    check_op({cat(n),
              SigmoidCrossEntropyGrad{0.5f},
              {{{n}, {}, Recipe::uniform(-9, 9)},
               {{n}, DType::kI32, Recipe::integer(-1, 1)},
               {{}, DType::kF32, Recipe::listed({0.75})},
               {{}, DType::kF32, Recipe::listed({static_cast<double>(n)})}},
              {.terms = 1, .magnitude = 1 / (static_cast<double>(n) + 0.5), .ulps = 16}},
             gradient);
}

double loss_of(std::vector<double> x, std::vector<double> target) {
  const auto n = static_cast<int64_t>(x.size());
  const RunResult got =
      run_node(SigmoidCrossEntropy{1e-6f}, {{{n}, x}, {{n}, target}}, {DType::kF32, DType::kI32});
  return decode(got.outputs[0], {DType::kF32, {}}).values[0];
}

TEST(SigmoidCrossEntropy, SurvivesHugeNumbersAndNothingToCount) {
  EXPECT_NEAR(loss_of({1e30, -1e30}, {1, 0}), 0, 1e-12);
  EXPECT_FLOAT_EQ(static_cast<float>(loss_of({1e30}, {0})), 1e30f / (1 + 1e-6f));
  EXPECT_EQ(loss_of({3, -4}, {-1, -1}), 0);
}

TEST(SigmoidCrossEntropy, BadTargetsAndNaNGiveNaN) {
  for (const double target : {-2.0, 2.0, 2147483647.0})
    EXPECT_TRUE(std::isnan(loss_of({1, 2}, {1, target}))) << target;
  EXPECT_TRUE(std::isnan(loss_of({std::numeric_limits<double>::quiet_NaN()}, {1})));
}

}  // namespace
}  // namespace assay::test
