#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "tests/harness/activation_reference.h"
#include "tests/harness/backend_under_test.h"
#include "tests/harness/op_case.h"
#include "tests/ops/conv2d_reference.h"

namespace assay::test {
namespace {

std::vector<Tensor> grad_norm_reference(const Op& op, const std::vector<Tensor>& in) {
  const auto& p = std::get<Conv2dGradNorm>(op);
  const Dims dims = in[static_cast<size_t>(p.first_of_norm(0))].dims;
  Tensor g = grad_data_reference(Conv2dGradData{p.geometry, dims}, in)[0], y = zeros(dims);
  const size_t channels = static_cast<size_t>(dims[3]);
  const auto norm = [&](int64_t k) { return &in[static_cast<size_t>(p.first_of_norm(k))]; };
  const auto xhat = [&](const Tensor* n, size_t i) {
    const size_t c = i % channels;
    return (n[0].values[i] - n[3].values[c]) / std::sqrt(n[4].values[c] + p.epsilon);
  };
  std::vector<Tensor> sums(static_cast<size_t>(p.norms), zeros({2, dims[3]}));
  for (size_t i = 0; i < g.values.size(); ++i) {
    if (p.has_addend) g.values[i] += in[2].values[i];
    if (p.has_residual) y.values[i] = in[static_cast<size_t>(p.residual_input())].values[i];
    for (int64_t k = 0; k < p.norms; ++k) {
      const Tensor* n = norm(k);
      y.values[i] += xhat(n, i) * n[1].values[i % channels] + n[2].values[i % channels];
    }
    if (y.values[i] <= 0) g.values[i] = 0;
    for (int64_t k = 0; k < p.norms; ++k) {
      Tensor& of = sums[static_cast<size_t>(k)];
      of.values[i % channels] += g.values[i] * xhat(norm(k), i);
      of.values[channels + i % channels] += g.values[i];
    }
  }
  sums.insert(sums.begin(), g);
  return sums;
}

Accuracy sum_of(const Dims& w) { return {.terms = w[1] * w[2] * w[3]}; }

TEST(Conv2d, EveryShape) {
  for (const ConvolutionShape& s : convolution_shapes())
    check_op({s.name,
              Conv2d{.geometry = s.g},
              {{s.x}, {s.w}},
              sum_of(s.w),
              {0, 1},
              {DType::kF32, DType::kBf16},
              /*thread_invariant=*/false},
             conv_reference);
}

// Every epilogue, with and without each addend; gradients where training graphs have them. Small
// weights, because where tanh or sigmoid saturate, 1 - y^2 of a y kept in bf16 says little.
void check_epilogue(const ConvolutionShape& s, ActivationKind kind, bool bias, bool residual,
                    bool keep_pre) {
  OpCase c{cat(s.name, " ", static_cast<int>(kind), bias ? " bias" : "",
               residual ? " residual" : "", keep_pre ? " kept" : ""),
           Conv2d{s.g, bias, residual, kind, keep_pre},
           {{s.x}, {s.w, {}, Recipe::uniform(-0.2, 0.2)}},
           of_rounded_product({.terms = s.w[1] * s.w[2] * s.w[3],
                               .ulps = activation_ulps(kind),
                               .roundings = keep_pre})};
  if (bias) c.inputs.push_back(bias_of(s.w[0]));
  if (residual) c.inputs.push_back({output_of(s.g, s.x, s.w), {}, Recipe::uniform(-0.2, 0.2)});
  if (keep_pre || gradient_reads_output(kind))
    for (size_t i = 0; i < c.inputs.size(); ++i) c.gradients.push_back(static_cast<int>(i));
  c.thread_invariant = false;
  if (bias && kind == ActivationKind::kRelu && convolutions_are_of_one_type()) {
    // A product that is rounded before its bias may end up on the other side of 0: gradients of
    // mixed signs in f32, and in 16 bits where a bias of 4 keeps it on its own.
    OpCase exact = c, far = c;
    exact.dtypes = {DType::kF32};
    far.dtypes = {DType::kBf16, DType::kF16};
    for (size_t i = 0; i < far.inputs[2].recipe.values.size(); ++i)
      far.inputs[2].recipe.values[i] = i % 3 == 0 ? -4 : 4;
    check_op({exact, far}, conv_reference);
    c.gradients.clear();
  }
  check_op(c, conv_reference);
  if (!bias || make_backend_under_test(1)->target().kind != Target::Kind::kCuda) return;
  c.name += " of the data's type";
  c.inputs[2].dtype.reset();
  c.gradients.clear();  // biases get their type when gradients are there
  check_op(c, conv_reference);
}

void check_every_epilogue(const ConvolutionShape& s) {
  for (const ActivationKind kind : all_activations()) {
    for (const bool bias : {false, true}) {
      for (const bool residual : {false, true}) {
        check_epilogue(s, kind, bias, residual, false);
        if (kind != ActivationKind::kNone) check_epilogue(s, kind, bias, residual, true);
      }
    }
  }
}

TEST(Conv2d, EveryEpilogue) {
  check_every_epilogue({"3x3", {2, 5, 6, 16}, {17, 3, 3, 16}, padded(1)});
}

// One and three channels, as in first layers, and five, to which the emulation's libraries join
// nothing.
TEST(Conv2d, EveryEpilogueOfFewTaps) {
  check_every_epilogue({"one channel", {2, 5, 6, 1}, {17, 3, 3, 1}, padded(1)});
  check_every_epilogue({"three channels, stride 2", {1, 7, 6, 3}, {8, 3, 2, 3}, padded(1, 2)});
  check_every_epilogue({"five channels", {1, 5, 4, 5}, {8, 3, 2, 5}, padded(1)});
}

// In a pass behind the library; without determinism by it, but of odd channels on a GPU and of 1x1
// in the emulation. What is summed may be rounded already.
TEST(Conv2d, KeepsSumsOfF16) {
  if (!make_backend_under_test(1)->target().has_f16) GTEST_SKIP() << "f16 is for GPUs";
  for (const ConvolutionShape& s :
       {ConvolutionShape{"3x3", {2, 5, 6, 8}, {16, 3, 3, 8}, padded(1)},
        ConvolutionShape{"many rows", {3, 33, 31, 8}, {8, 2, 2, 8}, {}},
        ConvolutionShape{"1x1", {2, 20, 15, 24}, {40, 1, 1, 24}, {}},
        ConvolutionShape{"1x1 stride 2, odd channels", {3, 7, 6, 5}, {19, 1, 1, 5}, padded(0, 2)},
        ConvolutionShape{"odd channels", {1, 5, 7, 5}, {17, 3, 3, 5}, padded(1)}})
    check_op({s.name,
              Conv2d{.geometry = s.g, .keep_sums = true},
              {{s.x}, {s.w}},
              {.terms = output_of(s.g, s.x, s.w).numel() / s.w[0], .roundings = 1},
              {0, 1},
              {DType::kF16},
              /*thread_invariant=*/false,
              /*unordered=*/true},
             conv_reference);
}

// Images of few channels and many pixels, which GPUs copy into pixels of 16 bytes.
TEST(Conv2d, FewChannelsOfManyPixels) {
  for (const int64_t channels : {1, 3, 7}) {
    const Dims x{2, 17, 18, channels}, w{8, 3, 3, channels};
    const ConvGeometry g = padded(1, 2);
    const Dims y = output_of(g, x, w);
    const std::string name = cat(channels, " channels");
    OpCase forward{name, Conv2d{.geometry = g}, {{x}, {w}}, sum_of(w)};
    OpCase weight{name,
                  Conv2dGradWeight{.geometry = g, .w_dims = w},
                  {{x}, {y}},
                  of_rounded_product({.terms = y[0] * y[1] * y[2]})};
    for (OpCase* c : {&forward, &weight}) c->thread_invariant = false;
    check_op(forward, conv_reference);
    check_op(weight, grad_weight_reference);
  }
}

// oneDNN gathers the pixels that are used before it multiplies them, whole vectors at a time.
TEST(Conv2d, PointwiseOfSomePixelsOfNarrowChannels) {
  for (const int64_t channels : {4, 5, 12, 20, 24}) {
    for (const int64_t filters : {8, 17}) {
      const Dims x{6, 14, 14, channels}, w{filters, 1, 1, channels};
      const ConvGeometry g = padded(0, 2);
      const std::string name = cat(channels, " to ", filters);
      const Dims y = output_of(g, x, w);
      OpCase forward{name, Conv2d{.geometry = g}, {{x}, {w}}, sum_of(w)};
      OpCase data{name, Conv2dGradData{g, x}, {{y}, {w}}, {.terms = filters}};
      OpCase weight{name,
                    Conv2dGradWeight{g, w, DType::kF32, false},
                    {{x}, {y}},
                    of_rounded_product({.terms = y[0] * y[1] * y[2]})};
      for (OpCase* c : {&forward, &data, &weight}) c->thread_invariant = false;
      check_op(forward, conv_reference);
      check_op(data, grad_data_reference);
      check_op(weight, grad_weight_reference);
    }
  }
}

// Apart; without determinism by the library, but 1x1 with a stride in the emulation. What relu is
// applied to is never near 0, which some round first.
TEST(Conv2dGradNorm, PassesReluAndSumsUp) {
  if (!make_backend_under_test(1)->target().has_f16) GTEST_SKIP() << "f16 is for GPUs";
  const auto repeated = [](int64_t n, const std::vector<double>& values) {
    std::vector<double> all;
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) all.push_back(values[i % values.size()]);
    return Recipe::listed(all);
  };
  for (const ConvolutionShape& s :
       {ConvolutionShape{"3x3", {2, 5, 6, 8}, {16, 3, 3, 8}, padded(1)},
        ConvolutionShape{"3x3 stride 2", {2, 9, 8, 16}, {8, 3, 3, 16}, padded(1, 2)},
        ConvolutionShape{"1x1", {2, 20, 15, 24}, {40, 1, 1, 24}, {}},
        ConvolutionShape{"1x1 stride 2", {3, 7, 6, 16}, {24, 1, 1, 16}, padded(0, 2)},
        ConvolutionShape{
            "odd channels, 1x1 stride 2", {1, 5, 7, 5}, {17, 1, 1, 5}, padded(0, 2)}}) {
    for (const int64_t norms : {1, 2}) {
      for (const bool addend : {false, true}) {
        for (const bool residual : {false, true}) {
          const Dims y = output_of(s.g, s.x, s.w), channels{s.x[3]};
          OpCase c{cat(s.name, ", ", norms, addend ? ", addend" : "", residual ? ", residual" : ""),
                   Conv2dGradNorm{s.g, 0.5f, norms, addend, residual},
                   {{y}, {s.w}},
                   {.terms = s.x.numel() / s.x[3], .magnitude = 2, .roundings = 3}};
          if (addend) c.inputs.push_back({s.x});
          if (residual) c.inputs.push_back({s.x, {}, Recipe::integer(-2, 2)});
          for (int64_t i = 0; i < norms; ++i) {
            c.inputs.push_back({s.x, {}, Recipe::integer(-3, 3)});
            c.inputs.push_back({channels, DType::kF32, repeated(s.x[3], {1, -2, 0.5})});
            c.inputs.push_back({channels, DType::kF32, repeated(s.x[3], {i == 0 ? 0.125 : 0.25})});
            c.inputs.push_back({channels, DType::kF32, Recipe::integer(-1, 1)});
            c.inputs.push_back({channels, DType::kF32, repeated(s.x[3], {0.5, 3.5})});
          }
          c.dtypes = {DType::kF16};
          c.thread_invariant = false;
          c.unordered = true;
          check_op(c, grad_norm_reference);
        }
      }
    }
  }
}

TEST(Conv2dGradData, EveryShape) {
  for (const ConvolutionShape& s : convolution_shapes()) {
    OpCase c{s.name,
             Conv2dGradData{s.g, s.x},
             {{output_of(s.g, s.x, s.w)}, {s.w}},
             {.terms = s.w[0] * s.w[1] * s.w[2]}};
    c.thread_invariant = false;
    check_op(c, grad_data_reference);
    c.inputs.push_back({s.x});
    for (const ActivationKind kind : {ActivationKind::kRelu, ActivationKind::kTanh}) {
      c.name = cat(s.name, " times the derivative of ", static_cast<int>(kind));
      c.op = Conv2dGradData{s.g, s.x, kind};
      if (kind == ActivationKind::kTanh)  // rounded before it is multiplied
        c.accuracy.magnitude = 1, c.accuracy.roundings = 1;
      check_op(c, grad_data_reference);
    }
  }
  const ValueType dy{DType::kF32, {1, 4, 4, 2}}, w{DType::kF32, {2, 1, 1, 3}};
  EXPECT_THROW(make_node(Conv2dGradData{{}, {1, 4, 4, 3}, ActivationKind::kRelu}, {dy, w, dy}),
               Error);
}

// In a pass behind the library; of f16 without determinism by it, but of odd channels on a GPU and
// of 1x1 in the emulation. What is summed may be rounded already.
TEST(Conv2dGradData, KeepsSums) {
  if (!make_backend_under_test(1)->target().has_f16) GTEST_SKIP() << "sums are kept on GPUs";
  for (const ConvolutionShape& s :
       {ConvolutionShape{"3x3", {2, 5, 6, 8}, {16, 3, 3, 8}, {}},
        ConvolutionShape{"many rows", {3, 33, 31, 8}, {8, 2, 2, 8}, padded(1)},
        ConvolutionShape{"3x3 stride 2", {2, 9, 11, 16}, {8, 3, 3, 16}, padded(1, 2)},
        ConvolutionShape{"1x1", {2, 20, 15, 24}, {40, 1, 1, 24}, {}},
        ConvolutionShape{"1x1 of two filters", {2, 19, 17, 64}, {2, 1, 1, 64}, {}},
        ConvolutionShape{"odd channels", {1, 5, 7, 17}, {5, 3, 3, 17}, padded(1)}}) {
    const int64_t pixels = s.x.numel() / s.x[3];
    OpCase c{s.name,
             Conv2dGradData{s.g, s.x, ActivationKind::kRelu, true},
             {{output_of(s.g, s.x, s.w)}, {s.w}, {s.x, std::nullopt, Recipe::integer(-1, 1)}},
             {.terms = s.w[0] * s.w[1] * s.w[2] * pixels,
              .magnitude = 2 * std::sqrt(static_cast<double>(pixels)),
              .roundings = 1}};
    c.thread_invariant = false;
    c.unordered = true;
    check_op(c, grad_data_reference);
  }
}

TEST(Conv2dGradWeight, EveryShape) {
  for (const ConvolutionShape& s : convolution_shapes()) {
    const Dims y = output_of(s.g, s.x, s.w);
    for (const bool bias : {false, true}) {
      OpCase c{cat(s.name, bias ? " with bias" : ""),
               Conv2dGradWeight{s.g, s.w, DType::kF32, bias},
               {{s.x}, {y}},
               of_rounded_product({.terms = y[0] * y[1] * y[2]})};
      c.thread_invariant = false;
      check_op(c, grad_weight_reference);
      c.name += " in bf16";
      c.op = Conv2dGradWeight{s.g, s.w, DType::kBf16, bias};
      c.dtypes = {DType::kBf16};
      check_op(c, grad_weight_reference);
    }
  }
}

// Programs of different threads share the library's primitives but no state.
TEST(Conv2d, ProgramsRunAtOnce) {
  const Conv2d op{padded(1), true, true, ActivationKind::kRelu};
  const OpCase c{"", op, {{{2, 9, 9, 16}}, {{16, 3, 3, 16}}, {{16}, DType::kF32}, {{2, 9, 9, 16}}}};
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    const std::vector<Tensor> inputs = make_inputs(c, dtype);
    const std::vector<DType> types{dtype, dtype, DType::kF32, dtype};
    const RunResult alone = run_node(op, inputs, types);
    std::vector<RunResult> together(3);
    std::vector<std::thread> threads;
    for (RunResult& result : together)
      threads.emplace_back([&] { result = run_node(op, inputs, types, {.repeats = 50}); });
    for (std::thread& thread : threads) thread.join();
    for (const RunResult& result : together) {
      EXPECT_TRUE(result.repeats_equal);
      EXPECT_TRUE(result.damage.empty());
      EXPECT_TRUE(result.outputs == alone.outputs);
    }
  }
}

TEST(Conv2d, RefusesWhatDoesNotFit) {
  const auto emit = [](const Conv2d& p, const Dims& x, const Dims& w) {
    make_node(p, {{DType::kF32, x}, {DType::kF32, w}});
  };
  EXPECT_THROW(emit({}, {1, 4, 4, 3}, {8, 3, 3, 4}), Error);
  EXPECT_THROW(emit({}, {1, 4, 4, 3}, {8, 5, 5, 3}), Error);
  EXPECT_THROW(emit({.geometry = padded(0, 0)}, {1, 4, 4, 3}, {8, 3, 3, 3}), Error);
  EXPECT_THROW(emit({.geometry = padded(0, 1, 2)}, {1, 4, 4, 3}, {8, 3, 3, 3}), Error);
}

}  // namespace
}  // namespace assay::test
