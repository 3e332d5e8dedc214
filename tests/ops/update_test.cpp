// Store, DecayGradients, ClipGradients, GradientNorm, CountStep, LossScaleUpdate.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/harness/op_case.h"

namespace assay::test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
const std::vector<DType> kF32Only{DType::kF32};

std::vector<Tensor> store_reference(const Op& op, const std::vector<Tensor>& x) {
  Tensor y = x[1];
  if (std::get<Store>(op).accumulate) {
    for (size_t i = 0; i < y.values.size(); ++i) y.values[i] += x[0].values[i];
  }
  return {y};
}

TEST(Store, CopiesOrAdds) {
  for (const bool accumulate : {false, true}) {
    for (const Dims& dims : {Dims{}, Dims{3, 5}, Dims{40001}})
      check_op({to_text(dims), Store{accumulate}, {{dims}, {dims}}, {}, {}, kF32Only},
               store_reference);
  }
}

// outputs norm, multiplier, skip
std::vector<Tensor> norm_reference(const Op& op, const std::vector<Tensor>& x) {
  const auto& p = std::get<GradientNorm>(op);
  double sum = 0;
  for (size_t i = 1; i < x.size(); ++i) {
    for (const double v : x[i].values) sum += v * v;
  }
  const double unscale = 1 / (x[0].values[0] * static_cast<double>(p.accumulate));
  const double norm = std::sqrt(sum) * unscale;
  const double clip = p.clip_norm > 0 ? std::min(1.0, p.clip_norm / norm) : 1;
  return {{{}, {norm}}, {{}, {clip * unscale}}, {{}, {0}}};
}

TEST(GradientNorm, NormMultiplierAndSkip) {
  for (const GradientNorm& op :
       {GradientNorm{0, 1}, GradientNorm{1.5f, 1}, GradientNorm{1e6f, 1}, GradientNorm{0.01f, 3}}) {
    const Argument scale{{}, {}, Recipe::listed({128})};
    check_op(
        {{"one", op, {scale, {{3, 5}}}, {}, {}, kF32Only},
         {"many", op, {scale, {{17}}, {{1}}, {{33, 1001}}, {{20000}}, {{7}}}, {}, {}, kF32Only}},
        norm_reference);
  }
}

// outputs gradients, loss
std::vector<Tensor> decay_reference(const Op& op, const std::vector<Tensor>& x) {
  const auto& p = std::get<DecayGradients>(op);
  const size_t n = (x.size() - 1) / 2;
  std::vector<Tensor> out(x.begin() + 1 + static_cast<std::ptrdiff_t>(n), x.end());
  double sum = 0;
  for (size_t k = 0; k < n; ++k) {
    for (size_t i = 0; i < out[k].values.size(); ++i) {
      const double value = x[1 + k].values[i];
      out[k].values[i] +=
          p.weight_decay * x[0].values[0] * static_cast<double>(p.accumulate) * value;
      sum += value * value;
    }
  }
  out.push_back({{}, {p.weight_decay / 2 * sum}});
  return out;
}

TEST(DecayGradients, AddsWhatItsPartOfTheLossAddsToThem) {
  const std::vector<Dims> dims{{17}, {1}, {33, 1001}, {20000}, {7}};
  for (const DecayGradients& op : {DecayGradients{0.25f, 1}, DecayGradients{4e-5f, 3}}) {
    std::vector<Argument> inputs{{{}, {}, Recipe::listed({128})}};
    for (int list = 0; list < 2; ++list) {
      for (const Dims& d : dims) inputs.push_back({d});
    }
    check_op({"many", op, inputs, {}, {}, kF32Only}, decay_reference);
  }
}

std::vector<Tensor> clip_reference(const Op& op, const std::vector<Tensor>& x) {
  const auto& p = std::get<ClipGradients>(op);
  std::vector<Tensor> clipped(x.begin() + 1, x.end());
  for (Tensor& g : clipped) {
    double sum = 0;
    for (const double v : g.values) sum += v * v;
    const double norm = std::sqrt(sum) / (x[0].values[0] * static_cast<double>(p.accumulate));
    for (double& v : g.values) v *= std::min(1.0, p.clip_norm / norm);
  }
  return clipped;
}

// Of the gradients some are longer than the norm and some are not.
TEST(ClipGradients, EachToItsNorm) {
  for (const ClipGradients& op :
       {ClipGradients{0.05f, 1}, ClipGradients{0.02f, 3}, ClipGradients{1e6f, 1}}) {
    const Argument scale{{}, {}, Recipe::listed({128})};
    check_op({"many", op, {scale, {{17}}, {{1}}, {{33, 1001}}, {{20000}}, {{7}}}, {}, {}, kF32Only},
             clip_reference);
  }
}

TEST(ClipGradients, LeavesWhatIsNotFinite) {
  const RunResult got =
      run_node(ClipGradients{1, 1}, {{{}, {1}}, {{2}, {3, kInfinity}}, {{2}, {3, 4}}},
               {DType::kF32, DType::kF32, DType::kF32});
  EXPECT_EQ(decode(got.outputs[0], {DType::kF32, {2}}).values[0], 3);
  EXPECT_FLOAT_EQ(decode(got.outputs[1], {DType::kF32, {2}}).values[1], 0.8f);
}

TEST(GradientNorm, DoesNotOverflowNorUnderflow) {
  for (const double size : {1e38, 1e-42}) {
    const Tensor g = rounded({{3}, {size, -size, size}}, DType::kF32);
    const RunResult got = run_node(GradientNorm{}, {{{}, {1}}, g}, {DType::kF32, DType::kF32});
    EXPECT_NEAR(decode(got.outputs[0], {DType::kF32, {}}).values[0] / (g.values[0] * std::sqrt(3)),
                1, 1e-3);  // a denormal has few digits
    EXPECT_EQ(decode(got.outputs[2], {DType::kF32, {}}).values[0], 0);
  }
}

// Gradients that are finite one by one: what reads the norm must see the same as what reads skip.
TEST(GradientNorm, SkipsWhenTheNormIsBeyondF32) {
  for (const float clip_norm : {0.0f, 1.0f}) {
    const RunResult got = run_node(GradientNorm{clip_norm, 1}, {{{}, {1}}, {{2}, {3e38, 3e38}}},
                                   {DType::kF32, DType::kF32});
    EXPECT_EQ(decode(got.outputs[0], {DType::kF32, {}}).values[0], kInfinity);
    EXPECT_EQ(decode(got.outputs[1], {DType::kF32, {}}).values[0], 0);
    EXPECT_EQ(decode(got.outputs[2], {DType::kF32, {}}).values[0], 1);
  }
}

TEST(GradientNorm, SkipsOnAnyNonFiniteElement) {
  for (const double bad : {kNaN, kInfinity, -kInfinity}) {
    for (const size_t at : {size_t{0}, size_t{20000}, size_t{40000}}) {
      std::vector<double> g(40001, 1e-3);
      g[at] = bad;
      const RunResult got = run_node(GradientNorm{1, 1}, {{{}, {1}}, {{2}, {1, 2}}, {{40001}, g}},
                                     {DType::kF32, DType::kF32, DType::kF32});
      EXPECT_EQ(decode(got.outputs[1], {DType::kF32, {}}).values[0], 0);
      EXPECT_EQ(decode(got.outputs[2], {DType::kF32, {}}).values[0], 1);
    }
  }
}

// As a damaged checkpoint may bring it.
TEST(GradientNorm, SkipsWhenTheLossScaleHasNoInverse) {
  for (const double scale : {0.0, 1e-45}) {
    const RunResult got =
        run_node(GradientNorm{}, {{{}, {scale}}, {{2}, {1, 2}}}, {DType::kF32, DType::kF32});
    EXPECT_EQ(decode(got.outputs[1], {DType::kF32, {}}).values[0], 0);
    EXPECT_EQ(decode(got.outputs[2], {DType::kF32, {}}).values[0], 1);
  }
}

TEST(CountStep, CountsUnlessSkipped) {
  const std::vector<DType> dtypes{DType::kI64, DType::kF32};
  const auto after = [&](double skip) {
    const RunResult got = run_node(CountStep{}, {{{}, {5e9}}, {{}, {skip}}}, dtypes);
    return decode(got.outputs[0], {DType::kI64, {}}).values[0];
  };
  EXPECT_EQ(after(0), 5e9 + 1);
  EXPECT_EQ(after(1), 5e9);
}

struct ScaleState {
  double scale, good;
  bool operator==(const ScaleState&) const = default;
};
ScaleState scale_after(const LossScaleUpdate& op, ScaleState before, double skip) {
  const RunResult got = run_node(op, {{{}, {before.scale}}, {{}, {before.good}}, {{}, {skip}}},
                                 {DType::kF32, DType::kI32, DType::kF32});
  return {decode(got.outputs[0], {DType::kF32, {}}).values[0],
          decode(got.outputs[1], {DType::kI32, {}}).values[0]};
}

TEST(LossScaleUpdate, GrowsAndBacksOffWithinItsBounds) {
  const LossScaleUpdate op{2, 0.5f, 3, 1, 1024};
  EXPECT_EQ(scale_after(op, {64, 0}, 0), (ScaleState{64, 1}));
  EXPECT_EQ(scale_after(op, {64, 1}, 0), (ScaleState{64, 2}));
  EXPECT_EQ(scale_after(op, {64, 2}, 0), (ScaleState{128, 0}));
  EXPECT_EQ(scale_after(op, {1024, 2}, 0), (ScaleState{1024, 0}));
  EXPECT_EQ(scale_after(op, {64, 2}, 1), (ScaleState{32, 0}));
  EXPECT_EQ(scale_after(op, {1, 2}, 1), (ScaleState{1, 0}));
}

}  // namespace
}  // namespace assay::test
