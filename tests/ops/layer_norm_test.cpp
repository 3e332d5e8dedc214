// LayerNorm and its gradient, plain, with a residual, with dropout and with both.
#include <gtest/gtest.h>

#include <cmath>

#include "sdk/base/philox.h"
#include "tests/harness/backend_under_test.h"
#include "tests/harness/op_case.h"

namespace assay::test {
namespace {

constexpr uint64_t kStep = 5;

// What a value is multiplied by in the step of these tests.
template <class P>
std::vector<double> mask(const P& p, int64_t n) {
  std::vector<double> factors;
  for (int64_t i = 0; i < n; ++i) {
    const PhiloxCounter four =
        philox4x32({static_cast<uint32_t>(i / 4), 0, kStep, 0}, philox_key(p.seed, p.stream));
    factors.push_back(four[i % 4] >= p.rate * 0x1p32 ? 1 / (1 - p.rate) : 0);
  }
  return factors;
}

std::vector<Tensor> reference(const Op& op, const std::vector<Tensor>& x) {
  const auto& p = std::get<LayerNorm>(op);
  const int64_t channels = x[0].dims.back(), rows = x[0].dims.numel() / channels;
  Tensor z = x[0];
  if (p.rate > 0) {
    const auto factors = mask(p, z.dims.numel());
    for (size_t i = 0; i < factors.size(); ++i) z.values[i] *= factors[i];
  }
  for (size_t i = 0; p.has_residual && i < z.values.size(); ++i) z.values[i] += x[3].values[i];
  const Dims row_dims(z.dims.span().first(z.dims.rank() - 1));
  Tensor y{z.dims, {}}, means{row_dims, {}}, rstds{row_dims, {}};
  for (int64_t r = 0; r < rows; ++r) {
    const double* row = z.values.data() + r * channels;
    double mean = 0, var = 0;
    for (int64_t c = 0; c < channels; ++c) mean += row[c] / static_cast<double>(channels);
    for (int64_t c = 0; c < channels; ++c)
      var += (row[c] - mean) * (row[c] - mean) / static_cast<double>(channels);
    const double rstd = 1 / std::sqrt(var + p.epsilon);
    for (int64_t c = 0; c < channels; ++c)
      y.values.push_back((row[c] - mean) * rstd * x[1].values[c] + x[2].values[c]);
    means.values.push_back(mean);
    rstds.values.push_back(rstd);
  }
  if (!p.keeps_z()) return {y, means, rstds};
  return {y, means, rstds, z};
}

OpCase case_of(const Dims& dims, LayerNorm op) {
  const Dims channels{dims.back()};
  OpCase c{cat(to_text(dims), op.has_residual ? " residual" : "", op.rate > 0 ? " dropout" : ""),
           op,
           {{dims, {}, Recipe::uniform(-2, 3)},
            {channels, DType::kF32, Recipe::uniform(0.5, 1.5)},
            {channels, DType::kF32, Recipe::uniform(-1, 1)}}};
  c.accuracy = {.terms = dims.back(), .magnitude = 4, .ulps = 8, .roundings = op.keeps_z()};
  c.gradients = {0, 1, 2};
  if (op.has_residual) {
    c.inputs.push_back({dims, {}, Recipe::uniform(-1, 1)});
    c.gradients.push_back(3);
  }
  if (op.rate > 0) c.inputs.push_back({{}, DType::kI64, Recipe::listed({kStep})});
  return c;
}

TEST(LayerNorm, ValuesAndGradients) {
  for (const Dims& dims : {Dims{3, 5}, Dims{2, 3, 7}, Dims{5, 33}, Dims{70, 24}, Dims{300, 64},
                           Dims{2, 768}, Dims{3, 1030}}) {
    for (const bool has_residual : {false, true})
      for (const float rate : {0.0f, 0.25f})
        check_op(case_of(dims, {.epsilon = 1e-5f,
                                .has_residual = has_residual,
                                .rate = rate,
                                .seed = 3,
                                .stream = 4}),
                 reference);
  }
}

// inputs z, gamma, mean, rstd, dy, [step], [addend]; outputs dz, dgamma, dbeta, [dx], [sums]
std::vector<Tensor> gradient_reference(const Op& op, const std::vector<Tensor>& x) {
  const auto& p = std::get<LayerNormGrad>(op);
  const auto channels = static_cast<size_t>(x[0].dims.back());
  const size_t n = x[0].values.size();
  std::vector<double> dy = x[4].values;
  for (size_t i = 0; p.has_addend && i < n; ++i)
    dy[i] += x[static_cast<size_t>(p.addend_input())].values[i];
  Tensor dz = x[0], dgamma{x[1].dims, std::vector<double>(channels)}, dbeta = dgamma, sums = dgamma;
  const auto normal = [&](size_t i) {
    return (x[0].values[i] - x[2].values[i / channels]) * x[3].values[i / channels];
  };
  for (size_t first = 0; first < n; first += channels) {
    double g = 0, gx = 0;
    for (size_t i = first; i < first + channels; ++i) {
      const double scaled = dy[i] * x[1].values[i - first] / static_cast<double>(channels);
      g += scaled, gx += scaled * normal(i);
      dgamma.values[i - first] += dy[i] * normal(i), dbeta.values[i - first] += dy[i];
    }
    for (size_t i = first; i < first + channels; ++i)
      dz.values[i] =
          x[3].values[first / channels] * (dy[i] * x[1].values[i - first] - g - normal(i) * gx);
  }
  Tensor dx = dz;
  if (p.rate > 0) {
    const auto factors = mask(p, dx.dims.numel());
    for (size_t i = 0; i < n; ++i) dx.values[i] *= factors[i];
  }
  for (size_t i = 0; i < n; ++i) sums.values[i % channels] += dx.values[i];
  std::vector<Tensor> outputs{dz, dgamma, dbeta};
  if (p.rate > 0) outputs.push_back(dx);
  if (p.keep_sums) outputs.push_back(sums);
  return outputs;
}

// With what GPUs join to it; sums of whole numbers are not rounded. Rows of fewer and of more
// threads, and more rows than blocks keep.
TEST(LayerNormGrad, AddsAndSumsUp) {
  if (make_backend_under_test(1)->target().kind != Target::Kind::kCuda)
    GTEST_SKIP() << "is for GPUs";
  for (const Dims& dims : {Dims{3, 5}, Dims{2, 3, 7}, Dims{2200, 40}, Dims{5, 256}, Dims{9, 768},
                           Dims{1100, 700}, Dims{3, 1024}, Dims{140, 1030}, Dims{3, 3001},
                           Dims{3, 8191}, Dims{2, 8192}, Dims{140, 8200}}) {
    for (const float rate : {0.0f, 0.25f}) {
      for (const bool addend : {false, true}) {
        const Dims channels{dims.back()}, rows(dims.span().first(dims.rank() - 1));
        OpCase c{cat(to_text(dims), rate > 0 ? " dropout" : "", addend ? " addend" : ""),
                 LayerNormGrad{
                     .rate = rate, .seed = 3, .stream = 4, .has_addend = addend, .keep_sums = true},
                 {{dims, {}, Recipe::uniform(-2, 3)},
                  {channels, DType::kF32, Recipe::uniform(0.5, 1.5)},
                  {rows, DType::kF32, Recipe::uniform(-1, 1)},
                  {rows, DType::kF32, Recipe::uniform(0.5, 1)},
                  {dims, {}, Recipe::integer(-2, 2)}},
                 {.terms = std::max(dims.back(), rows.numel()), .magnitude = 4, .ulps = 8}};
        if (rate > 0) c.inputs.push_back({{}, DType::kI64, Recipe::listed({kStep})});
        if (addend) c.inputs.push_back({dims, {}, Recipe::integer(-3, 3)});
        check_op(c, gradient_reference);
      }
    }
  }
}

// The sum of dy and the addend, to the bit, as if it had been stored.
TEST(LayerNormGrad, RoundsTheSumThatItReads) {
  if (make_backend_under_test(1)->target().kind != Target::Kind::kCuda)
    GTEST_SKIP() << "is for GPUs";
  const Dims dims{6, 40}, channels{40}, rows{6};
  const OpCase c{"",
                 LayerNormGrad{},
                 {{dims},
                  {channels, DType::kF32},
                  {rows, DType::kF32},
                  {rows, DType::kF32},
                  {dims, {}, Recipe::uniform(-1, 1)},
                  {dims, {}, Recipe::uniform(-0.3, 0.2)}}};
  std::vector<Tensor> x = make_inputs(c, DType::kBf16);
  const std::vector<DType> types{DType::kBf16, DType::kF32,  DType::kF32,
                                 DType::kF32,  DType::kBf16, DType::kBf16};
  const RunResult joined = run_node(LayerNormGrad{.has_addend = true}, x, types);
  for (size_t i = 0; i < x[4].values.size(); ++i) x[4].values[i] += x[5].values[i];
  x[4] = rounded(x[4], DType::kBf16);
  x.pop_back();
  const RunResult apart = run_node(LayerNormGrad{}, x, {types.begin(), types.end() - 1});
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(joined.outputs[i], apart.outputs[i]) << i;
}

std::vector<double> outputs(const RunResult& got, size_t output, const Dims& dims) {
  return decode(got.outputs[output], {DType::kF32, dims}).values;
}

// A mean far from zero, with deviations that f32 just tells from it.
TEST(LayerNorm, SubtractsTheMeanFirst) {
  const Tensor x{{1, 4}, {4096, 4097, 4098, 4099}}, one{{4}, {1, 1, 1, 1}}, zero{{4}, {0, 0, 0, 0}};
  const auto got = run_node(LayerNorm{}, {x, one, zero}, {DType::kF32, DType::kF32, DType::kF32});
  const auto y = outputs(got, 0, {1, 4});
  EXPECT_NEAR(y[0], -1.3416408, 1e-6);
  EXPECT_NEAR(y[3], 1.3416408, 1e-6);
}

// 1e-12 is nothing in half precision: a constant row gives beta, not NaN.
TEST(LayerNorm, ConstantRowsGiveBeta) {
  const Tensor x{{1, 3}, {7, 7, 7}}, gamma{{3}, {1, 2, 3}}, beta{{3}, {0.5, -0.5, 0.25}};
  const auto got =
      run_node(LayerNorm{}, {x, gamma, beta}, {DType::kBf16, DType::kF32, DType::kF32});
  EXPECT_EQ(decode(got.outputs[0], {DType::kBf16, {1, 3}}).values, beta.values);
}

}  // namespace
}  // namespace assay::test
