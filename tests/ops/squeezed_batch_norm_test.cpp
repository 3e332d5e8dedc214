// SqueezedBatchNorm and its gradient: images smaller and larger than a task, of odd sizes, of few
// and of many channels.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/harness/op_case.h"

namespace assay::test {
namespace {

const std::vector<Dims> kShapes{{1, 1, 2, 3},  {3, 1, 1, 5},    {2, 5, 3, 17},    {5, 8, 8, 96},
                                {2, 7, 9, 40}, {2, 3, 3, 1030}, {3, 101, 100, 8}, {2, 64, 48, 32}};

double swish(double v) { return v / (1 + std::exp(-v)); }
double swish_derivative(double v) {
  const double s = 1 / (1 + std::exp(-v));
  return s * (1 + v * (1 - s));
}

// Of x[i], whose channel is the last axis, which image and channel it belongs to.
struct Places {
  size_t channels, image, n;
  explicit Places(const Dims& x)
      : channels(static_cast<size_t>(x[3])),
        image(static_cast<size_t>(x[1] * x[2] * x[3])),
        n(static_cast<size_t>(x.numel())) {}
  size_t channel(size_t i) const { return i % channels; }
  size_t squeezed(size_t i) const { return i / image * channels + channel(i); }
  double pixels() const { return static_cast<double>(image / channels); }
  double rows() const { return static_cast<double>(n / channels); }
};

// inputs x, gamma, beta; outputs squeezed, y, mean, var
std::vector<Tensor> forward(const Op& op, const std::vector<Tensor>& in) {
  const Places at(in[0].dims);
  const std::vector<double>& x = in[0].values;
  Tensor y = in[0], mean = in[1], var = in[1];
  mean.values.assign(at.channels, 0), var.values.assign(at.channels, 0);
  for (size_t i = 0; i < at.n; ++i) mean.values[at.channel(i)] += x[i] / at.rows();
  for (size_t i = 0; i < at.n; ++i)
    var.values[at.channel(i)] += std::pow(x[i] - mean.values[at.channel(i)], 2) / at.rows();
  Tensor squeezed{{y.dims[0], 1, 1, y.dims[3]}, {}};
  squeezed.values.assign(static_cast<size_t>(squeezed.dims.numel()), 0);
  for (size_t i = 0; i < at.n; ++i) {
    const size_t c = at.channel(i);
    const double deviation =
        std::sqrt(var.values[c] + static_cast<double>(std::get<SqueezedBatchNorm>(op).epsilon));
    y.values[i] = swish(in[1].values[c] * (x[i] - mean.values[c]) / deviation + in[2].values[c]);
    squeezed.values[at.squeezed(i)] += y.values[i] / at.pixels();
  }
  return {squeezed, y, mean, var};
}

TEST(SqueezedBatchNorm, Values) {
  for (const Dims& x : kShapes) {
    const Dims channels{x[3]};
    check_op({to_text(x),
              SqueezedBatchNorm{x.numel() / x[3] < 8 ? 0.5f : 1e-3f},
              {{x, {}, Recipe::uniform(-2, 3)},
               {channels, DType::kF32, Recipe::uniform(0.5, 2)},
               {channels, DType::kF32, Recipe::uniform(-1, 1)}},
              {.terms = x.numel() / x[3], .magnitude = 3, .ulps = 8, .roundings = 1}},
             forward);
  }
}

// inputs x, gamma, beta, mean, var, dproduct, gate, dsqueezed; outputs dx, dgamma, dbeta
std::vector<Tensor> backward(const Op& op, const std::vector<Tensor>& in) {
  const Places at(in[0].dims);
  Tensor dx = in[0], dgamma = in[1], dbeta = in[1];
  dgamma.values.assign(at.channels, 0), dbeta.values.assign(at.channels, 0);
  const auto deviation = [&](size_t c) {
    return std::sqrt(in[4].values[c] +
                     static_cast<double>(std::get<SqueezedBatchNormGrad>(op).epsilon));
  };
  const auto xhat = [&](size_t i) {
    const size_t c = at.channel(i);
    return (in[0].values[i] - in[3].values[c]) / deviation(c);
  };
  std::vector<double> g(at.n);
  for (size_t i = 0; i < at.n; ++i) {
    const size_t c = at.channel(i), s = at.squeezed(i);
    const double arrives = in[5].values[i] * in[6].values[s] + in[7].values[s] / at.pixels();
    g[i] = arrives * swish_derivative(in[1].values[c] * xhat(i) + in[2].values[c]);
    dgamma.values[c] += g[i] * xhat(i);
    dbeta.values[c] += g[i];
  }
  for (size_t i = 0; i < at.n; ++i) {
    const size_t c = at.channel(i);
    dx.values[i] = in[1].values[c] / deviation(c) *
                   (g[i] - (dbeta.values[c] + xhat(i) * dgamma.values[c]) / at.rows());
  }
  return {dx, dgamma, dbeta};
}

TEST(SqueezedBatchNormGrad, Values) {
  for (const Dims& x : kShapes) {
    const Dims c{x[3]}, squeezed{x[0], 1, 1, x[3]};
    check_op({to_text(x),
              SqueezedBatchNormGrad{1e-3f},
              {{x, {}, Recipe::uniform(-2, 3)},
               {c, DType::kF32, Recipe::uniform(0.5, 2)},
               {c, DType::kF32},
               {c, DType::kF32, Recipe::uniform(0.4, 0.6)},
               {c, DType::kF32, Recipe::uniform(1, 2)},
               {x},
               {squeezed, {}, Recipe::uniform(0, 1)},
               {squeezed, {}, Recipe::uniform(-4, 4)}},
              {.terms = x.numel() / x[3], .magnitude = 8}},
             backward);
  }
}

}  // namespace
}  // namespace assay::test
