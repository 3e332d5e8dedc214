// BatchNorm in training and inference form, its gradient, folding and running statistics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "sdk/graph/elementwise.h"
#include "tests/harness/backend_under_test.h"
#include "tests/harness/error_of.h"
#include "tests/harness/op_case.h"

namespace assay::test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

double normalised(double x, double gamma, double beta, double mean, double var, double epsilon) {
  return gamma * (x - mean) / std::sqrt(var + epsilon) + beta;
}

using enum ActivationKind;
constexpr ActivationKind kKinds[] = {kNone, kRelu, kSwish};

double activated(ActivationKind kind, double v) {
  if (kind == kRelu) return std::max(v, 0.0);
  return kind == kSwish ? v / (1 + std::exp(-v)) : v;
}
double derivative(ActivationKind kind, double v) {
  if (kind == kRelu) return v > 0 ? 1 : 0;
  const double s = 1 / (1 + std::exp(-v));
  return kind == kSwish ? s * (1 + v * (1 - s)) : 1;
}

// inputs x, gamma, beta, [residual], [sums]; outputs y, mean, var
std::vector<Tensor> batch_norm_reference(const Op& op, const std::vector<Tensor>& in) {
  const auto& p = std::get<BatchNorm>(op);
  const size_t channels = in[1].values.size(), n = in[0].values.size();
  const double rows = static_cast<double>(n / channels);
  const std::vector<double>& x = in[0].values;
  Tensor y = in[0], mean{in[1].dims, std::vector<double>(channels)}, var = mean;
  for (size_t i = 0; i < n; ++i) mean.values[i % channels] += x[i] / rows;
  for (size_t i = 0; i < n; ++i)
    var.values[i % channels] += std::pow(x[i] - mean.values[i % channels], 2) / rows;
  for (size_t c = 0; p.has_sums && c < channels; ++c) {
    const std::vector<double>& sums = in.back().values;
    mean.values[c] = sums[c] / rows;
    var.values[c] = std::max(sums[channels + c] / rows - mean.values[c] * mean.values[c], 0.0);
  }
  for (size_t i = 0; i < n; ++i) {
    const size_t c = i % channels;
    double v = normalised(x[i], in[1].values[c], in[2].values[c], mean.values[c], var.values[c],
                          p.epsilon);
    if (p.has_residual) v += in[3].values[i];
    y.values[i] = activated(p.activation, v);
  }
  return {y, mean, var};
}

const std::vector<Dims> kShapes{{2, 1},        {7, 3},          {6, 5, 5, 5}, {3, 4, 4, 17},
                                {2, 3, 5, 33}, {4, 9, 11, 64},  {128, 256},   {3, 130},
                                {2, 1030},     {5, 30, 37, 12}, {600, 129}};

OpCase batch_norm_case(const BatchNorm& op, const Dims& x) {
  const Dims channels{x.back()};
  const int64_t rows = x.numel() / x.back();
  std::vector<Argument> inputs{{x, {}, Recipe::uniform(-2, 3)},
                               {channels, DType::kF32, Recipe::uniform(0.5, 2)},
                               {channels, DType::kF32, Recipe::uniform(-1, 1)}};
  std::vector<int> gradients{0};
  if (op.has_residual) {
    inputs.push_back({x});
    gradients.push_back(3);
  }
  // Moving gamma or beta moves a whole channel over the kink of relu, where differences are no
  // derivative; BatchNormGrad.Values covers what this leaves out.
  if (op.activation != kRelu) gradients.insert(gradients.end(), {1, 2});
  return {to_text(x), op, inputs, {.terms = rows, .magnitude = 3, .ulps = 8}, gradients};
}

// With a handful of rows some channel has hardly any variance, which would magnify every round-off;
// a large epsilon keeps the test well conditioned.
float epsilon_for(const Dims& x) { return x.numel() / x.back() < 8 ? 0.5f : 1e-3f; }

void check_batch_norm(ActivationKind activation, bool residual) {
  for (const Dims& x : kShapes)
    check_op(batch_norm_case({epsilon_for(x), activation, residual}, x), batch_norm_reference);
}

TEST(BatchNorm, Plain) { check_batch_norm(kNone, false); }
TEST(BatchNorm, Relu) { check_batch_norm(kRelu, false); }
TEST(BatchNorm, Residual) { check_batch_norm(kNone, true); }
TEST(BatchNorm, ResidualAndRelu) { check_batch_norm(kRelu, true); }
TEST(BatchNorm, Swish) { check_batch_norm(kSwish, false); }

// A naive sum of squares in f32 would leave no digit of the variance. A GPU sums the tall one up in
// two levels.
TEST(BatchNorm, LargeMeanDoesNotCancel) {
  for (const Dims& x : {Dims{40, 30, 30, 7}, Dims{70000, 32}}) {
    for (const double mean : {1e3, -1e4}) {
      const Dims channels{x.back()};
      const OpCase c{"",
                     BatchNorm{},
                     {{x, {}, Recipe::uniform(mean - 2, mean + 2)},
                      {channels, {}, Recipe::uniform(1, 1)},
                      {channels, {}, Recipe::uniform(0, 0)}}};
      const std::vector<Tensor> inputs = make_inputs(c, DType::kF32);
      const std::vector<Tensor> expected = batch_norm_reference(c.op, inputs);
      const RunResult got = run_node(c.op, inputs, {DType::kF32, DType::kF32, DType::kF32});
      const Tensor var = decode(got.outputs[2], {DType::kF32, channels});
      for (size_t k = 0; k < var.values.size(); ++k) {
        EXPECT_NEAR(var.values[k], expected[2].values[k], 2e-6 * expected[2].values[k])
            << to_text(x) << " around " << mean;
      }
    }
  }
}

TEST(BatchNorm, ConstantChannelHasNoVariance) {
  const RunResult got =
      run_node(BatchNorm{}, {{{300, 1}, std::vector<double>(300, 0.1)}, {{1}, {1}}, {{1}, {0.5}}},
               {DType::kF32, DType::kF32, DType::kF32});
  EXPECT_LT(decode(got.outputs[2], {DType::kF32, {1}}).values[0], 1e-15);
  EXPECT_NEAR(decode(got.outputs[0], {DType::kF32, {300, 1}}).values[0], 0.5, 1e-5);
}

TEST(BatchNorm, NaNReachesStatistics) {
  std::vector<double> x(64, 1.0);
  x[33] = kNaN;
  const RunResult got = run_node(BatchNorm{}, {{{32, 2}, x}, {{2}, {1, 1}}, {{2}, {0, 0}}},
                                 {DType::kF32, DType::kF32, DType::kF32});
  const Tensor mean = decode(got.outputs[1], {DType::kF32, {2}});
  EXPECT_EQ(mean.values[0], 1);
  EXPECT_TRUE(std::isnan(mean.values[1]));
  EXPECT_TRUE(std::isnan(decode(got.outputs[2], {DType::kF32, {2}}).values[1]));
}

// Any will do: of channel c here what gives it a mean of c / 64 and a variance of 0, 1, 2 or 3.
TEST(BatchNorm, TakesSums) {
  if (!make_backend_under_test(1)->target().has_f16) GTEST_SKIP() << "f16 is for GPUs";
  for (const Dims& x : {Dims{2, 1}, Dims{6, 5, 5, 5}, Dims{4, 9, 11, 64}, Dims{64, 1030}}) {
    const int64_t channels = x.back(), rows = x.numel() / channels;
    std::vector<double> sums(static_cast<size_t>(2 * channels));
    for (int64_t c = 0; c < channels; ++c) {
      const double mean = static_cast<double>(c) / 64, count = static_cast<double>(rows);
      sums[static_cast<size_t>(c)] = count * mean;
      sums[static_cast<size_t>(channels + c)] =
          c % 5 == 4 ? 0 : count * (mean * mean + static_cast<double>(c % 4));  // 0: not negative
    }
    for (const ActivationKind kind : {kNone, kRelu}) {
      for (const bool residual : {false, true}) {
        OpCase c = batch_norm_case({0.5f, kind, residual, true}, x);
        c.inputs.push_back({{2, channels}, DType::kF32, Recipe::listed(sums)});
        c.accuracy.magnitude = 40;
        c.gradients.clear();  // of a graph that has them
        c.dtypes = {DType::kF16};
        check_op(c, batch_norm_reference);
      }
    }
  }
}

// What is given of `channels` as sums of `rows` numbers and of their squares.
Recipe some_sums(int64_t channels, int64_t rows) {
  std::vector<double> sums(static_cast<size_t>(2 * channels));
  for (int64_t c = 0; c < channels; ++c) {
    const double mean = static_cast<double>(c % 64) / 64, count = static_cast<double>(rows);
    sums[static_cast<size_t>(c)] = count * mean;
    sums[static_cast<size_t>(channels + c)] = count * (mean * mean + static_cast<double>(c % 3));
  }
  return Recipe::listed(sums);
}

// As if both stood apart; outputs y, mean, var, and those of the residual.
std::vector<Tensor> both_norms_reference(const Op& op, const std::vector<Tensor>& in) {
  const auto& p = std::get<BatchNorm>(op);
  const std::vector<Tensor> residual = batch_norm_reference(
      BatchNorm{.epsilon = p.epsilon, .has_sums = true}, {in[3], in[5], in[6], in[7]});
  std::vector<Tensor> all = batch_norm_reference(BatchNorm{p.epsilon, p.activation, true, true},
                                                 {in[0], in[1], in[2], residual[0], in[4]});
  all.insert(all.end(), residual.begin() + 1, residual.end());
  if (!p.keep_mask) return all;
  Dims dims = all[0].dims;
  dims[dims.rank() - 1] /= 8;
  Tensor mask{dims, std::vector<double>(all[0].values.size() / 8)};
  for (size_t i = 0; i < all[0].values.size(); ++i)
    mask.values[i / 8] += all[0].values[i] > 0 ? 1 << i % 8 : 0;
  all.push_back(mask);
  return all;
}

TEST(BatchNorm, NormalizesItsResidual) {
  if (!make_backend_under_test(1)->target().has_f16) GTEST_SKIP() << "f16 is for GPUs";
  for (const Dims& x : {Dims{2, 1}, Dims{6, 5, 5, 5}, Dims{4, 9, 11, 64}, Dims{64, 1032}}) {
    const Dims channels{x.back()};
    const Recipe sums = some_sums(x.back(), x.numel() / x.back());
    for (const ActivationKind kind : {kNone, kRelu}) {
      BatchNorm op{0.5f, kind, true, true, true};
      op.keep_mask = kind == kRelu && x.back() % 8 == 0;
      check_op({cat(to_text(x), kind == kRelu ? " relu" : ""),
                op,
                {{x, {}, Recipe::distinct()},
                 {channels, DType::kF32, Recipe::uniform(0.5, 2)},
                 {channels, DType::kF32},
                 {x, {}, Recipe::uniform(-2, 3)},
                 {{2, x.back()}, DType::kF32, sums},
                 {channels, DType::kF32, Recipe::uniform(-2, -1)},
                 {channels, DType::kF32},
                 {{2, x.back()}, DType::kF32, sums}},
                {.magnitude = 20, .ulps = 8},
                {},
                {DType::kF16}},
               both_norms_reference);
    }
  }
}

// inputs x, gamma, beta, mean, var, dy, [y], [addend]; outputs dx, dgamma, dbeta, [dresidual]
std::vector<Tensor> grad_reference(const Op& op, const std::vector<Tensor>& in) {
  const auto& p = std::get<BatchNormGrad>(op);
  const size_t channels = in[1].values.size(), n = in[0].values.size();
  const double rows = static_cast<double>(n / channels);
  Tensor dx = in[0], dgamma{in[1].dims, std::vector<double>(channels)}, dbeta = dgamma, g = in[5];
  const auto xhat = [&](size_t i) {
    const size_t c = i % channels;
    return normalised(in[0].values[i], 1, 0, in[3].values[c], in[4].values[c], p.epsilon);
  };
  for (size_t i = 0; i < n; ++i) {
    const size_t c = i % channels;
    if (p.has_addend) g.values[i] += in.back().values[i];
    const double y = p.reads_y() ? in[6].values[i] : in[1].values[c] * xhat(i) + in[2].values[c];
    g.values[i] *= derivative(p.activation, y);
    dgamma.values[c] += g.values[i] * xhat(i);
    dbeta.values[c] += g.values[i];
  }
  for (size_t i = 0; i < n; ++i) {
    const size_t c = i % channels;
    const double scale = in[1].values[c] / std::sqrt(in[4].values[c] + p.epsilon);
    dx.values[i] = scale * (g.values[i] - (dbeta.values[c] + xhat(i) * dgamma.values[c]) / rows);
  }
  if (!p.has_residual) return {dx, dgamma, dbeta};
  return {dx, dgamma, dbeta, g};
}

TEST(BatchNormGrad, Values) {
  for (const ActivationKind kind : kKinds) {
    for (const auto& [residual, addend] :
         {std::pair(false, false), std::pair(true, false), std::pair(true, true)}) {
      if (residual && kind == kSwish) continue;
      for (const Dims& x : kShapes) {
        const Dims c{x.back()};
        OpCase op_case{to_text(x),
                       BatchNormGrad{1e-3f, kind, residual, addend},
                       {{x, {}, Recipe::uniform(-2, 3)},
                        {c, DType::kF32, Recipe::uniform(0.5, 2)},
                        {c, DType::kF32},
                        {c, DType::kF32, Recipe::uniform(0.4, 0.6)},
                        {c, DType::kF32, Recipe::uniform(1, 2)},
                        {x}},
                       {.terms = x.numel() / x.back(), .magnitude = addend ? 25.0 : 3.0}};
        if (kind == kRelu && residual) op_case.inputs.push_back({x});
        if (addend) {  // sums that no type rounds
          op_case.inputs[5].recipe = Recipe::integer(-8, 8);
          op_case.inputs.push_back({x, {}, Recipe::integer(-8, 8)});
        }
        check_op(op_case, grad_reference);
      }
    }
  }
}

// inputs x, gamma, beta, mean, var, dy, sums, and all but dy again of a second one
std::vector<Tensor> of_sums_reference(const Op& op, const std::vector<Tensor>& in) {
  const auto& p = std::get<BatchNormGrad>(op);
  std::vector<Tensor> out;
  for (const size_t first : {size_t{0}, size_t{7}}) {
    if (first >= in.size()) break;
    const Tensor *n = &in[first], &sums = first == 0 ? in[6] : in[12];
    const size_t channels = n[1].values.size();
    const double rows = static_cast<double>(in[5].values.size() / channels);
    Tensor dx = in[5], dgamma = n[1], dbeta = n[1];
    for (size_t c = 0; c < channels; ++c)
      dgamma.values[c] = sums.values[c], dbeta.values[c] = sums.values[channels + c];
    for (size_t i = 0; i < dx.values.size(); ++i) {
      const size_t c = i % channels;
      const double rstd = 1 / std::sqrt(n[4].values[c] + p.epsilon),
                   xhat = (n[0].values[i] - n[3].values[c]) * rstd;
      dx.values[i] = n[1].values[c] * rstd *
                     (dx.values[i] - (dbeta.values[c] + xhat * dgamma.values[c]) / rows);
    }
    out.insert(out.end(), {dx, dgamma, dbeta});
  }
  return out;
}

TEST(BatchNormGrad, TakesSums) {
  if (!make_backend_under_test(1)->target().has_f16) GTEST_SKIP() << "f16 is for GPUs";
  for (const bool second : {false, true}) {
    for (const Dims& x : kShapes) {
      const Dims c{x.back()};
      const double rows = static_cast<double>(x.numel() / x.back());
      const std::vector<Argument> norm{{x, {}, Recipe::uniform(-2, 3)},
                                       {c, DType::kF32, Recipe::uniform(0.5, 2)},
                                       {c, DType::kF32},
                                       {c, DType::kF32, Recipe::uniform(0.4, 0.6)},
                                       {c, DType::kF32, Recipe::uniform(1, 2)}};
      const Argument sums{{2, x.back()}, DType::kF32, Recipe::uniform(-rows, rows)};
      std::vector<Argument> inputs = norm;
      inputs.insert(inputs.end(), {{x}, sums});
      if (second) {
        inputs.insert(inputs.end(), norm.begin(), norm.end());
        inputs.push_back(sums);
      }
      check_op({to_text(x),
                BatchNormGrad{.epsilon = 1e-3f, .has_sums = true, .has_second = second},
                inputs,
                {.magnitude = 5, .ulps = 8},
                {},
                {DType::kF16}},
               of_sums_reference);
    }
  }
}

TEST(BatchNormGrad, RoundsTheSumAsIfItHadBeenStored) {
  const Dims dims{7, 33, 20}, channels{20};
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    for (const ActivationKind kind : {kNone, kRelu}) {
      const OpCase c{"",
                     Fill{},
                     {{dims},
                      {channels, DType::kF32, Recipe::uniform(0.5, 2)},
                      {channels, DType::kF32},
                      {channels, DType::kF32},
                      {channels, DType::kF32, Recipe::uniform(1, 2)},
                      {dims},
                      {dims},
                      {dims}}};
      std::vector<Tensor> in = make_inputs(c, dtype);
      const Tensor addend = in.back(), dy = in[5];
      in.pop_back();
      if (kind == kNone) in.pop_back();  // y
      const DType f32 = DType::kF32;
      std::vector<DType> types(in.size(), dtype);
      for (size_t i = 1; i < 5; ++i) types[i] = f32;
      const RunResult sum = run_node(Pointwise{add_code(), {}}, {dy, addend}, {dtype, dtype});
      std::vector<Tensor> whole = in;
      whole[5] = decode(sum.outputs[0], {dtype, dims});
      const RunResult apart = run_node(BatchNormGrad{1e-5f, kind, true}, whole, types);
      in.push_back(addend);
      types.push_back(dtype);
      const RunResult joined = run_node(BatchNormGrad{1e-5f, kind, true, true}, in, types);
      for (size_t i = 0; i < 4; ++i) EXPECT_EQ(joined.outputs[i], apart.outputs[i]) << i;
    }
  }
}

// The mask that the forward keeps gives the bits that its y gives, also where y is tiny or NaN.
TEST(BatchNormGrad, TakesTheMaskThatTheForwardKeeps) {
  const Target target = make_backend_under_test(1)->target();
  const Dims dims{7, 33, 24}, channels{24};
  const DType f32 = DType::kF32;
  std::vector<double> gamma, beta;
  for (int i = 0; i < 24; ++i) {
    gamma.push_back(std::array{1e-38, 1.0, 1e-8, 1.0}[i % 4]);
    beta.push_back(i == 11 ? kNaN : 0);
  }
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    if (dtype == DType::kF16 && !target.has_f16) continue;
    const OpCase c{"",
                   Fill{},
                   {{dims},
                    {channels, f32, Recipe::listed(gamma)},
                    {channels, f32, Recipe::listed(beta)},
                    {dims, {}, Recipe::integer(-1, 1)}}};
    const std::vector<Tensor> in = make_inputs(c, dtype);
    BatchNorm norm{1e-5f, kRelu, true};
    norm.keep_mask = true;
    const std::vector<DType> types{dtype, f32, f32, dtype};
    if (target.kind != Target::Kind::kCuda) {
      const Error error = error_of([&] { run_node(norm, in, types); });
      EXPECT_EQ(error.code(), Code::kUnsupported);
      EXPECT_THAT(error.what(), testing::HasSubstr("masks of relu are kept on GPUs only"));
      continue;
    }
    const RunResult kept = run_node(norm, in, types);
    norm.keep_mask = false;
    const RunResult plain = run_node(norm, in, types);
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(kept.outputs[i], plain.outputs[i]) << i;
    const Dims bytes{7, 33, 24 * static_cast<int64_t>(dtype_size(dtype)) / 16};
    const Tensor mask = decode(kept.outputs[3], {DType::kU8, bytes});
    for (const bool addend : {false, true}) {
      std::vector<Tensor> gradient{in[0],
                                   in[1],
                                   in[2],
                                   decode(plain.outputs[1], {f32, channels}),
                                   decode(plain.outputs[2], {f32, channels}),
                                   in[0],
                                   decode(plain.outputs[0], {dtype, dims})};
      std::vector<DType> gradient_types{dtype, f32, f32, f32, f32, dtype, dtype};
      if (addend) gradient.push_back(in[0]), gradient_types.push_back(dtype);
      BatchNormGrad op{1e-5f, kRelu, true, addend};
      const RunResult of_y = run_node(op, gradient, gradient_types);
      op.has_mask = true;
      gradient[6] = mask, gradient_types[6] = DType::kU8;
      const RunResult of_mask = run_node(op, gradient, gradient_types);
      for (size_t i = 0; i < 4; ++i) EXPECT_EQ(of_mask.outputs[i], of_y.outputs[i]) << i;
      EXPECT_TRUE(of_mask.damage.empty());
    }
  }
}

// The mask recomputed from x must be the forward's own: dy passes exactly where y is not zero.
TEST(BatchNormGrad, RecomputedMaskAgreesWithForward) {
  const Dims dims{50, 20, 20, 3};
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    const OpCase c{"",
                   BatchNorm{1e-5f, kRelu, false},
                   {{dims, {}, Recipe::uniform(-1, 1)},
                    {{3}, DType::kF32, Recipe::listed({1e-38, 1, 0})},  // y: denormal, usual, tiny
                    {{3}, DType::kF32, Recipe::listed({0, 0, 1e-40})}}};
    const std::vector<Tensor> in = make_inputs(c, dtype);
    const DType f32 = DType::kF32;
    const RunResult forward = run_node(c.op, in, {dtype, f32, f32});
    const Tensor y = decode(forward.outputs[0], {dtype, dims});
    const Tensor mean = decode(forward.outputs[1], {f32, {3}});
    const Tensor var = decode(forward.outputs[2], {f32, {3}});
    // One element of dy at a time is too slow; dbeta counts the elements that pass.
    const Tensor ones{dims, std::vector<double>(y.values.size(), 1.0)};
    const RunResult backward =
        run_node(BatchNormGrad{1e-5f, kRelu}, {in[0], in[1], in[2], mean, var, ones},
                 {dtype, f32, f32, f32, f32, dtype});
    const Tensor dbeta = decode(backward.outputs[2], {f32, {3}});
    std::array<double, 3> positive{};
    for (size_t i = 0; i < y.values.size(); ++i) positive[i % 3] += y.values[i] > 0;
    for (size_t k = 0; k < 3; ++k) EXPECT_EQ(dbeta.values[k], positive[k]) << k;
  }
}

std::vector<Tensor> inference_reference(const Op& op, const std::vector<Tensor>& in) {
  const auto& p = std::get<BatchNormInference>(op);
  const size_t channels = in[1].values.size();
  Tensor y = in[0];
  for (size_t i = 0; i < y.values.size(); ++i) {
    const size_t c = i % channels;
    double v = normalised(in[0].values[i], in[1].values[c], in[2].values[c], in[3].values[c],
                          in[4].values[c], p.epsilon);
    if (p.has_residual) v += in[5].values[i];
    y.values[i] = activated(p.activation, v);
  }
  return {y};
}

TEST(BatchNormInference, UsesGivenStatistics) {
  for (const ActivationKind kind : kKinds) {
    for (const bool residual : {false, true}) {
      for (const Dims& x : kShapes) {
        const Dims c{x.back()};
        OpCase op_case{to_text(x),
                       BatchNormInference{1e-3f, kind, residual},
                       {{x, {}, Recipe::uniform(-2, 3)},
                        {c, DType::kF32, Recipe::uniform(0.5, 2)},
                        {c, DType::kF32},
                        {c, DType::kF32},
                        {c, DType::kF32, Recipe::uniform(0.1, 2)}},
                       {.magnitude = 5}};
        if (residual) op_case.inputs.push_back({x});
        check_op(op_case, inference_reference);
      }
    }
  }
}

std::vector<Tensor> fold_reference(const Op& op, const std::vector<Tensor>& in) {
  const auto& p = std::get<FoldBatchNorm>(op);
  Tensor w = in[0], bias = in[1];
  const size_t size = w.values.size() / bias.values.size();
  for (size_t i = 0; i < w.values.size(); ++i)
    w.values[i] *= in[1].values[i / size] / std::sqrt(in[4].values[i / size] + p.epsilon);
  for (size_t k = 0; k < bias.values.size(); ++k)
    bias.values[k] = normalised(0, in[1].values[k], in[2].values[k], in[3].values[k],
                                in[4].values[k], p.epsilon);
  return {w, bias};
}

TEST(FoldBatchNorm, GivesEqualConvolution) {
  check_op({{"3x3",
             FoldBatchNorm{1e-3f},
             {{{5, 3, 3, 7}},
              {{5}, {}, Recipe::uniform(0.5, 2)},
              {{5}},
              {{5}},
              {{5}, {}, Recipe::uniform(0.1, 2)}},
             {.magnitude = 1},
             {},
             {DType::kF32}}},
           fold_reference);
}

std::vector<Tensor> running_reference(const Op& op, const std::vector<Tensor>& in) {
  const auto& p = std::get<RunningStatistics>(op);
  const double m = p.momentum, count = static_cast<double>(p.count);
  const size_t n = in.size() / 4;
  std::vector<Tensor> moved(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(2 * n));
  for (size_t i = 0; i < 2 * n; ++i) {
    const double unbias = i >= n && p.count > 1 ? count / (count - 1) : 1;
    for (size_t k = 0; k < moved[i].values.size(); ++k)
      moved[i].values[k] += m * (in[2 * n + i].values[k] * unbias - moved[i].values[k]);
  }
  return moved;
}

OpCase running_case(int64_t count, double loss) {
  return {cat("count ", count),
          RunningStatistics{0.1f, count},
          {{{17}},
           {{17}, {}, Recipe::uniform(0, 2)},
           {{17}},
           {{17}, {}, Recipe::uniform(0, 2)},
           {{}, {}, Recipe::listed({loss})}},
          {.magnitude = 1},
          {},
          {DType::kF32}};
}

TEST(RunningStatistics, Moves) {
  check_op({running_case(0, 1), running_case(1, 1), running_case(10, -3)}, running_reference);
}

TEST(RunningStatistics, LeavesChannelsThatAreNoNumbers) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const RunResult got = run_node(RunningStatistics{0.5f, 0},
                                 {{{3}, {1, 2, 3}},
                                  {{3}, {4, 5, 6}},
                                  {{3}, {kNaN, 4, 5}},
                                  {{3}, {6, 7, kInfinity}},
                                  {{}, {1}}},
                                 std::vector<DType>(5, DType::kF32));
  EXPECT_EQ(decode(got.outputs[0], {DType::kF32, {3}}).values, (std::vector<double>{1, 3, 3}));
  EXPECT_EQ(decode(got.outputs[1], {DType::kF32, {3}}).values, (std::vector<double>{4, 6, 6}));
}

// More than one launch holds, and more channels than one block.
TEST(RunningStatistics, MovesThoseOfManyNormalisations) {
  OpCase c = running_case(10, 1);
  const Argument loss = c.inputs.back();
  c.inputs.clear();
  for (const bool variance : {false, true, false, true}) {
    for (int64_t i = 0; i < 90; ++i)
      c.inputs.push_back({{i == 3 ? 700 : 1 + i % 5}, {}, Recipe::uniform(variance ? 0 : -1, 2)});
  }
  c.inputs.push_back(loss);
  check_op(c, running_reference);
}

TEST(RunningStatistics, SaysWhatIsWrong) {
  const auto message = [](const std::vector<ValueType>& inputs) {
    return std::string(error_of([&] { make_node(RunningStatistics{}, inputs); }).what());
  };
  const ValueType two{DType::kF32, {2}}, three{DType::kF32, {3}}, loss{DType::kF32, {}};
  EXPECT_THAT(message({two, two, two, two, two, two, loss}),
              testing::HasSubstr("needs four lists of equal length and the loss, got 7 tensors"));
  EXPECT_THAT(message({two, three, two, three, two, three, two, two, loss}),
              testing::HasSubstr("input 7 has shape [2], expected [3]"));
}

TEST(RunningStatistics, StaysWhenTheLossIsNotFinite) {
  for (const double loss : {static_cast<double>(kNaN), std::numeric_limits<double>::infinity()}) {
    const OpCase c = running_case(10, loss);
    const std::vector<Tensor> in = make_inputs(c, DType::kF32);
    const RunResult got = run_node(c.op, in, std::vector<DType>(5, DType::kF32));
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(got.outputs[i], encode(in[i], DType::kF32));
  }
}

}  // namespace
}  // namespace assay::test
