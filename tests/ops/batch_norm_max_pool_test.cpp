// BatchNormMaxPool and its gradient, which only GPUs have. x are whole numbers: they differ by more
// than what is rounded, or are equal, so that maxima stand where the reference has them.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/harness/backend_under_test.h"
#include "tests/harness/op_case.h"
#include "tests/harness/windows.h"

namespace assay::test {
namespace {

struct Shape {
  PoolGeometry geometry;
  Dims x;
};
const PoolGeometry kStem{
    .window = {3, 3}, .stride = {2, 2}, .pad_begin = {1, 1}, .pad_end = {1, 1}};
const std::vector<Shape> kShapes{
    {{}, {1, 2, 2, 1}},
    {{}, {2, 7, 9, 3}},  // an edge no window covers
    {{}, {3, 8, 6, 33}},
    {kStem, {2, 9, 10, 5}},
    {kStem, {2, 16, 15, 40}},
    {kStem, {3, 40, 38, 64}},
    {{.window = {3, 2}, .stride = {1, 2}, .pad_begin = {0, 1}, .pad_end = {2, 0}}, {2, 6, 7, 17}},
    {{.window = {2, 2}, .stride = {3, 3}}, {2, 8, 8, 4}},      // gaps between windows
    {{.window = {16, 16}, .stride = {4, 4}}, {1, 17, 20, 8}},  // as many places as a byte has
};

bool on_gpu() { return make_backend_under_test(1)->target().kind == Target::Kind::kCuda; }

Tensor filled(const Dims& dims, double value) {
  return {dims, std::vector<double>(static_cast<size_t>(dims.numel()), value)};
}

// BatchNorm by given statistics, of one element.
struct Normalisation {
  const Tensor &gamma, &beta, &mean, &var;
  double epsilon;
  double deviation(size_t c) const { return std::sqrt(var.values[c] + epsilon); }
  double xhat(double x, size_t c) const { return (x - mean.values[c]) / deviation(c); }
  double y(double x, size_t c) const { return gamma.values[c] * xhat(x, c) + beta.values[c]; }
};

// y, peaks and winners of x.
std::vector<Tensor> maxima(const PoolGeometry& g, const Normalisation& norm, const Tensor& x) {
  const auto channels = static_cast<size_t>(x.dims[3]);
  Tensor y = filled(pooled_dims(g, x.dims), -1), peaks = y, winners = y;
  for_windows(g, x.dims, y.dims, [&](size_t o, size_t i, int64_t place) {
    const double value = std::max(norm.y(x.values[i], i % channels), 0.0);
    if (value <= y.values[o]) return;
    y.values[o] = value;
    peaks.values[o] = x.values[i];
    winners.values[o] = static_cast<double>(place);
  });
  return {y, peaks, winners};
}

// inputs x, gamma, beta; outputs y, mean, var, peaks, winners
std::vector<Tensor> forward(const Op& op, const std::vector<Tensor>& in) {
  const auto& p = std::get<BatchNormMaxPool>(op);
  const std::vector<double>& x = in[0].values;
  const auto channels = static_cast<size_t>(in[0].dims[3]);
  const double rows = static_cast<double>(x.size() / channels);
  Tensor mean = filled(in[1].dims, 0), var = mean;
  for (size_t i = 0; i < x.size(); ++i) mean.values[i % channels] += x[i] / rows;
  for (size_t i = 0; i < x.size(); ++i)
    var.values[i % channels] += std::pow(x[i] - mean.values[i % channels], 2) / rows;
  const Normalisation norm{in[1], in[2], mean, var, static_cast<double>(p.epsilon)};
  const auto found = maxima(p.geometry, norm, in[0]);
  return {found[0], mean, var, found[1], found[2]};
}

std::vector<double> repeated(int64_t n, const std::vector<double>& values) {
  std::vector<double> all;
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) all.push_back(values[i % values.size()]);
  return all;
}

TEST(BatchNormMaxPool, Values) {
  if (!on_gpu()) GTEST_SKIP() << "is for GPUs";
  for (const Shape& s : kShapes) {
    const Dims c{s.x[3]};
    check_op({to_text(s.x),
              BatchNormMaxPool{0.5f, s.geometry},
              {{s.x, {}, Recipe::integer(-3, 3)},
               {c, DType::kF32, Recipe::listed(repeated(s.x[3], {1, -2, 0.5}))},
               {c, DType::kF32, Recipe::uniform(-1, 1)}},
              {.terms = s.x.numel() / s.x[3], .magnitude = 3, .ulps = 8}},
             forward);
  }
}

// Of one window of four and two channels: what stands in y, and where.
struct OneWindow {
  std::vector<double> y, peaks, winners;
};
OneWindow one_window(DType dtype, const std::vector<double>& x, double gamma, double beta) {
  const RunResult got =
      run_node(BatchNormMaxPool{}, {{{1, 2, 2, 2}, x}, {{2}, {gamma, gamma}}, {{2}, {beta, beta}}},
               {dtype, DType::kF32, DType::kF32});
  const Dims y{1, 1, 1, 2};
  return {decode(got.outputs[0], {dtype, y}).values, decode(got.outputs[3], {dtype, y}).values,
          decode(got.outputs[4], {DType::kU8, y}).values};
}

// As it is stored, which of 256 and a little more bfloat16 does not tell.
TEST(BatchNormMaxPool, TheFirstOfEqualsWins) {
  if (!on_gpu()) GTEST_SKIP() << "is for GPUs";
  const std::vector<double> x{1, 4, 2, 3, 3, 2, 4, 1};
  const OneWindow exact = one_window(DType::kF32, x, 0.01, 256);
  EXPECT_EQ(exact.winners, (std::vector<double>{3, 0}));
  EXPECT_EQ(exact.peaks, (std::vector<double>{4, 4}));
  const OneWindow rounded = one_window(DType::kBf16, x, 0.01, 256);
  EXPECT_EQ(rounded.y, (std::vector<double>{256, 256}));
  EXPECT_EQ(rounded.winners, (std::vector<double>{0, 0}));
  EXPECT_EQ(rounded.peaks, (std::vector<double>{1, 4}));
  // Nothing above 0: all are equal.
  EXPECT_EQ(one_window(DType::kF32, x, 1, -9).winners, (std::vector<double>{0, 0}));
}

TEST(BatchNormMaxPool, NaNWins) {
  if (!on_gpu()) GTEST_SKIP() << "is for GPUs";
  const OneWindow got = one_window(DType::kF32, {1, 4, std::nan(""), 3, 3, 2, 4, 1}, 1, 0);
  EXPECT_TRUE(std::isnan(got.y[0]));  // with its mean
  EXPECT_GT(got.y[1], 0);
}

// inputs x, gamma, beta, mean, var, dy, peaks, winners; outputs dx, dgamma, dbeta
std::vector<Tensor> backward(const Op& op, const std::vector<Tensor>& in) {
  const auto& p = std::get<BatchNormMaxPoolGrad>(op);
  const Normalisation norm{in[1], in[2], in[3], in[4], static_cast<double>(p.epsilon)};
  const Tensor &x = in[0], &dy = in[5];
  const auto channels = static_cast<size_t>(x.dims[3]);
  const double rows = static_cast<double>(x.values.size() / channels);
  Tensor g = filled(x.dims, 0), dgamma = filled(in[1].dims, 0), dbeta = dgamma, dx = g;
  for_windows(p.geometry, x.dims, dy.dims, [&](size_t o, size_t i, int64_t place) {
    if (in[7].values[o] == static_cast<double>(place) && norm.y(x.values[i], i % channels) > 0)
      g.values[i] += dy.values[o];
  });
  for (size_t o = 0; o < dy.values.size(); ++o) {
    const size_t c = o % channels;
    if (norm.y(in[6].values[o], c) <= 0) continue;
    dbeta.values[c] += dy.values[o];
    dgamma.values[c] += dy.values[o] * norm.xhat(in[6].values[o], c);
  }
  for (size_t i = 0; i < x.values.size(); ++i) {
    const size_t c = i % channels;
    dx.values[i] =
        in[1].values[c] / norm.deviation(c) *
        (g.values[i] - (dbeta.values[c] + norm.xhat(x.values[i], c) * dgamma.values[c]) / rows);
  }
  return {dx, dgamma, dbeta};
}

// What relu is applied to is never near 0, which some round first.
TEST(BatchNormMaxPoolGrad, Values) {
  if (!on_gpu()) GTEST_SKIP() << "is for GPUs";
  for (const Shape& s : kShapes) {
    const Dims c{s.x[3]}, y = pooled_dims(s.geometry, s.x);
    const auto per_channel = [&](const std::vector<double>& values) {
      return Argument{c, DType::kF32, Recipe::listed(repeated(s.x[3], values))};
    };
    OpCase op{to_text(s.x),
              BatchNormMaxPoolGrad{0.5f, s.geometry},
              {{s.x, {}, Recipe::integer(-3, 3)},
               per_channel({1, -2, 0.5}),
               per_channel({0.125}),
               {c, DType::kF32, Recipe::integer(-1, 1)},
               per_channel({0.5, 3.5})},
              {.terms = s.x.numel() / s.x[3], .magnitude = 4}};
    const std::vector<Tensor> in = make_inputs(op, DType::kF32);
    const auto found = maxima(s.geometry, {in[1], in[2], in[3], in[4], 0.5}, in[0]);
    op.inputs.push_back({y});
    op.inputs.push_back({y, {}, Recipe::listed(found[1].values)});
    op.inputs.push_back({y, DType::kU8, Recipe::listed(found[2].values)});
    check_op(op, backward);
  }
}

}  // namespace
}  // namespace assay::test
