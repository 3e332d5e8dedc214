// What is written with Pointwise by name: sums, casts, activations and their gradients.
#include <gtest/gtest.h>

#include <cmath>

#include "sdk/graph/elementwise.h"
#include "tests/harness/activation_reference.h"
#include "tests/harness/op_case.h"

namespace assay::test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class F>
Tensor map(const Tensor& x, F f) {
  Tensor y = x;
  for (double& v : y.values) v = f(v);
  return y;
}

std::vector<Tensor> run(const Op& op, const std::vector<Tensor>& x, DType dtype = DType::kF32) {
  const std::vector<DType> dtypes(x.size(), dtype);
  const RunResult result = run_node(op, x, dtypes);
  return {decode(result.outputs[0], {dtype, x[0].dims})};
}

std::vector<Tensor> reference(const Op& op, const std::vector<Tensor>& x) {
  const ActivationKind kind = activation_of(op);
  return {map(x[0], [&](double v) { return activation_reference(kind, v); })};
}

const std::vector<ActivationKind> kKinds{ActivationKind::kRelu,    ActivationKind::kElu,
                                         ActivationKind::kTanh,    ActivationKind::kSigmoid,
                                         ActivationKind::kGelu,    ActivationKind::kSwish,
                                         ActivationKind::kGeluTanh};

TEST(Activation, ValuesAndGradientsOfEveryKind) {
  for (const ActivationKind kind : kKinds) {
    const Pointwise op{activation_code(kind), {}};
    // The gradient reads a saved tensor of magnitude 1, rounded to the data type.
    const Accuracy accuracy{.magnitude = 1, .ulps = 4};
    check_op({{"one", op, {{{1}}}, accuracy, {0}},
              {"odd", op, {{{3, 17}, {}, Recipe::uniform(-4, 4)}}, accuracy, {0}},
              {"wide", op, {{{33, 5, 7}, {}, Recipe::uniform(-30, 30)}}, accuracy, {0}},
              {"parallel", op, {{{20011}, {}, Recipe::uniform(-6, 6)}}, accuracy, {0}}},
             reference);
  }
}

TEST(Activation, KeepsNaNAndTheLimits) {
  for (const ActivationKind kind : kKinds) {
    const Tensor x{{4}, {kNaN, -200, 200, 0}};
    const std::vector<double> y = run(Pointwise{activation_code(kind), {}}, {x})[0].values;
    EXPECT_TRUE(std::isnan(y[0])) << static_cast<int>(kind);
    for (int i = 1; i < 4; ++i) {
      const auto expected = static_cast<float>(activation_reference(kind, x.values[i]));
      EXPECT_EQ(static_cast<float>(y[i]), expected) << static_cast<int>(kind);
    }
  }
}

// Every binade of f32, densely enough to meet the worst spots of the polynomials.
Tensor all_magnitudes(double least, double most) {
  Tensor x{{}, {}};
  for (double m = least; m < most; m *= 1.0003) {
    for (const double sign : {-1, 1}) x.values.push_back(static_cast<float>(sign * m));
  }
  x.dims = {static_cast<int64_t>(x.values.size())};
  return x;
}

double ulp_of(double value) {
  return std::ldexp(1.0, std::max(-126, std::ilogb(static_cast<float>(value))) - 23);
}

TEST(Activation, IsAccurateToAFewUlps) {
  for (const auto kind : {ActivationKind::kElu, ActivationKind::kTanh, ActivationKind::kSigmoid,
                          ActivationKind::kSwish}) {
    const Tensor x = all_magnitudes(1e-30, 87);  // beyond, e^-x overflows and results become 0
    const Tensor y = run(Pointwise{activation_code(kind), {}}, {x})[0];
    double worst = 0, where = 0;
    for (size_t i = 0; i < x.values.size(); ++i) {
      const double expected = activation_reference(kind, x.values[i]);
      const double error = std::abs(y.values[i] - expected) / ulp_of(expected);
      if (error > worst) worst = error, where = x.values[i];
    }
    EXPECT_LE(worst, 3.0) << static_cast<int>(kind) << " at " << where;
  }
}

// 1 + erf cancels for negative x, so Gelu is accurate relative to x there, not to its tiny value.
TEST(Activation, GeluIsAccurateRelativeToItsInput) {
  const Tensor x = all_magnitudes(1e-30, 100);
  const Tensor y = run(Pointwise{activation_code(ActivationKind::kGelu), {}}, {x})[0];
  for (size_t i = 0; i < x.values.size(); ++i) {
    const double expected = activation_reference(ActivationKind::kGelu, x.values[i]);
    EXPECT_LE(std::abs(y.values[i] - expected), 2.5 * ulp_of(x.values[i])) << x.values[i];
  }
}

TEST(ActivationGrad, OfReluIsZeroAtZeroAndPassesNaN) {
  const std::vector<double> dx = run(Pointwise{activation_grad_code(ActivationKind::kRelu), {}},
                                     {{{4}, {0, 1, kNaN, 0}}, {{4}, {5, 6, 7, kNaN}}})[0]
                                     .values;
  EXPECT_EQ(dx[0], 0);
  EXPECT_EQ(dx[1], 6);
  EXPECT_EQ(dx[2], 7);
  EXPECT_EQ(dx[3], 0);
}

std::vector<Tensor> add_reference(const Op&, const std::vector<Tensor>& x) {
  Tensor y = x[0];
  for (size_t i = 0; i < y.values.size(); ++i) y.values[i] += x[1].values[i];
  return {y};
}

TEST(Add, ValuesAndGradients) {
  check_op({{"scalar", Pointwise{add_code(), {}}, {{{}}, {{}}}, {}, {0, 1}},
            {"odd", Pointwise{add_code(), {}}, {{{3, 5}}, {{3, 5}}}, {}, {0, 1}},
            {"parallel", Pointwise{add_code(), {}}, {{{5, 20, 331}}, {{5, 20, 331}}}, {}, {0, 1}}},
           add_reference);
}

std::vector<Tensor> cast_reference(const Op& op, const std::vector<Tensor>& x) {
  return {rounded(x[0], *std::get<Pointwise>(op).dtype)};
}

TEST(Cast, RoundsToNearestEven) {
  for (const DType to : {DType::kF32, DType::kBf16}) {
    check_op(
        {{"odd", Pointwise{cast_code(), to}, {{{7, 3}, {}, Recipe::uniform(-1e4, 1e4)}}},
         {"parallel", Pointwise{cast_code(), to}, {{{40007}, {}, Recipe::uniform(-1e-3, 1e-3)}}}},
        cast_reference);
  }
}

// More than one launch holds, and lengths around those of packs and blocks.
TEST(Casts, RoundAsEachAlone) {
  for (const DType to : {DType::kF32, DType::kBf16}) {
    OpCase c{"many", Casts{to}, {}};
    for (int64_t i = 0; i < 130; ++i) c.inputs.push_back({{i < 20 ? 4090 + i : 1 + i % 9}});
    check_op(c, [](const Op& op, const std::vector<Tensor>& in) {
      std::vector<Tensor> out;
      for (const Tensor& x : in) out.push_back(rounded(x, std::get<Casts>(op).dtype));
      return out;
    });
  }
}

// Ties both ways, the largest finite number, overflow, infinity, NaN, denormals of both types.
TEST(Cast, HandlesEverySortOfNumber) {
  const Tensor x{{11},
                 {1 + 0x1p-8, 1 + 3 * 0x1p-8, -1 - 0x1p-8 - 0x1p-20, 3.4028234e38, kInfinity,
                  -kInfinity, kNaN, 0x1p-133, 0x1p-134, 0x1.8p-134, -0.0}};
  const RunResult result = run_node(Pointwise{cast_code(), DType::kBf16}, {x}, {DType::kF32});
  const std::vector<double> y = decode(result.outputs[0], {DType::kBf16, x.dims}).values;
  const std::vector<double> expected{1,         1 + 0x1p-6, -1 - 0x1p-7, kInfinity,
                                     kInfinity, -kInfinity, kNaN,        0x1p-133,
                                     0,         0x1p-133,   -0.0};
  for (size_t i = 0; i < y.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(y[i]));
    } else {
      EXPECT_EQ(y[i], expected[i]) << i;
      EXPECT_EQ(std::signbit(y[i]), std::signbit(expected[i])) << i;
    }
  }
}

}  // namespace
}  // namespace assay::test
