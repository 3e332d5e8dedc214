#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "sdk/backend/cpu/device.h"
#include "sdk/backend/cpu/kernels/kernels.h"
#include "tests/harness/activation_reference.h"
#include "tests/harness/backend_under_test.h"
#include "tests/harness/op_case.h"
#include "tests/ops/convolution_shapes.h"

namespace assay::test {
namespace {

// Of the CPU backend: elsewhere a library is in its place, which wants its operands aligned.
bool has_winograd() {
  return !libraries_need_alignment() && cpu::kernels().winograd[0]->lanes >= 8;
}

size_t flat(const Dims& d, int64_t a, int64_t b, int64_t c, int64_t e) {
  return static_cast<size_t>(((a * d[1] + b) * d[2] + c) * d[3] + e);
}

// Calls body(x, w, y) with the flat indices of every product of the convolution.
template <class Body>
void each_product(const ConvGeometry& g, const Dims& x, const Dims& w, const Dims& y,
                  const Body& body) {
  for (int64_t n = 0; n < y[0]; ++n)
    for (int64_t p = 0; p < y[1]; ++p)
      for (int64_t q = 0; q < y[2]; ++q)
        for (int64_t k = 0; k < y[3]; ++k)
          for (int64_t r = 0; r < w[1]; ++r)
            for (int64_t s = 0; s < w[2]; ++s) {
              const int64_t h = p * g.stride[0] - g.pad_begin[0] + r * g.dilation[0];
              const int64_t v = q * g.stride[1] - g.pad_begin[1] + s * g.dilation[1];
              if (h < 0 || h >= x[1] || v < 0 || v >= x[2]) continue;
              const int64_t first = k / (y[3] / g.groups) * w[3];  // first channel of the group
              for (int64_t c = 0; c < w[3]; ++c)
                body(flat(x, n, h, v, first + c), flat(w, k, r, s, c), flat(y, n, p, q, k));
            }
}

Tensor zeros(const Dims& dims) {
  return {dims, std::vector<double>(static_cast<size_t>(dims.numel()))};
}

std::vector<Tensor> conv_reference(const Op& op, const std::vector<Tensor>& x) {
  const auto& p = std::get<Conv2d>(op);
  Tensor y = zeros(output_of(p.geometry, x[0].dims, x[1].dims));
  each_product(p.geometry, x[0].dims, x[1].dims, y.dims, [&](size_t i, size_t j, size_t o) {
    y.values[o] += x[0].values[i] * x[1].values[j];
  });
  for (size_t o = 0; o < y.values.size(); ++o) {
    if (p.has_bias) y.values[o] += x[2].values[o % x[2].values.size()];
    if (p.has_residual) y.values[o] += x[static_cast<size_t>(p.residual_input())].values[o];
  }
  const Tensor pre = y;
  for (double& v : y.values) v = activation_reference(p.activation, v);
  if (p.keep_pre) return {y, pre};
  if (!p.keep_sums) return {y};
  const size_t channels = static_cast<size_t>(y.dims[3]);
  Tensor sums = zeros({2, y.dims[3]});
  for (size_t o = 0; o < y.values.size(); ++o) {
    sums.values[o % channels] += y.values[o];
    sums.values[channels + o % channels] += y.values[o] * y.values[o];
  }
  return {y, sums};
}

std::vector<Tensor> grad_data_reference(const Op& op, const std::vector<Tensor>& x) {
  const auto& p = std::get<Conv2dGradData>(op);
  Tensor dx = zeros(p.x_dims);
  each_product(p.geometry, p.x_dims, x[1].dims, x[0].dims, [&](size_t i, size_t j, size_t o) {
    dx.values[i] += x[0].values[o] * x[1].values[j];
  });
  if (p.activation != ActivationKind::kNone) {
    for (size_t i = 0; i < dx.values.size(); ++i)
      dx.values[i] *= derivative_reference(p.activation, x[2].values[i]);
  }
  if (!p.keep_sums) return {dx};
  Tensor sums = zeros({dx.dims[3]});
  for (size_t i = 0; i < dx.values.size(); ++i) sums.values[i % sums.values.size()] += dx.values[i];
  return {dx, sums};
}

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

std::vector<Tensor> grad_weight_reference(const Op& op, const std::vector<Tensor>& x) {
  const auto& p = std::get<Conv2dGradWeight>(op);
  Tensor dw = zeros(p.w_dims), dbias = zeros({p.w_dims[0]});
  each_product(p.geometry, x[0].dims, p.w_dims, x[1].dims, [&](size_t i, size_t j, size_t o) {
    dw.values[j] += x[0].values[i] * x[1].values[o];
  });
  for (size_t o = 0; o < x[1].values.size(); ++o)
    dbias.values[o % dbias.values.size()] += x[1].values[o];
  if (!p.has_bias) return {dw};
  return {dw, dbias};
}

// On a backend whose convolutions are of one type what it does not take along finds a rounded
// product.
Accuracy of_rounded_product(Accuracy accuracy) {
  if (!convolutions_are_of_one_type()) return accuracy;
  ++accuracy.roundings;
  accuracy.magnitude = std::max(accuracy.magnitude, 1.0);  // of the product
  return accuracy;
}

// In f32, of numbers that are the same in all types: such backends round them.
Argument bias_of(int64_t filters) {
  std::vector<double> values;
  for (int64_t i = 0; i < filters; ++i)
    values.push_back((static_cast<double>(i * 37 % 128) - 64) / 64);
  return {{filters}, DType::kF32, Recipe::listed(values)};
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

// Sizes that go to Winograd's method: tiles that fill the image and tiles that do not, every
// padding it takes, panels of filters and channels that are not full.
std::vector<ConvolutionShape> winograd_shapes() {
  const auto pads = [](int64_t top, int64_t left, int64_t bottom, int64_t right) {
    return ConvGeometry{.pad_begin = {top, left}, .pad_end = {bottom, right}};
  };
  return {
      {"whole tiles", {1, 16, 16, 32}, {32, 3, 3, 32}, padded(1)},
      {"cut tiles", {2, 9, 11, 32}, {48, 3, 3, 32}, padded(1)},
      {"no padding", {3, 12, 11, 48}, {64, 3, 3, 48}, {}},
      {"padding all around", {1, 14, 13, 80}, {32, 3, 3, 80}, pads(2, 2, 2, 2)},
      {"asymmetric padding", {1, 15, 18, 32}, {48, 3, 3, 32}, pads(0, 2, 1, 0)},
      {"single rows", {16, 1, 1, 32}, {32, 3, 3, 32}, padded(1)},
      {"5x5, whole tiles", {1, 14, 14, 32}, {64, 5, 5, 32}, padded(2)},
      {"5x5, cut tiles", {2, 9, 11, 32}, {48, 5, 5, 32}, padded(2)},
      {"5x5, no padding", {2, 12, 11, 48}, {32, 5, 5, 48}, {}},
      {"5x5, asymmetric padding", {1, 13, 10, 32}, {80, 5, 5, 32}, pads(4, 0, 1, 3)},
  };
}

std::string planned_kernel(const Op& op, const std::vector<ValueType>& inputs) {
  const OneNode one = make_node(op, inputs);
  const NodeId node = one.graph.value(one.outputs[0]).producer;
  return cpu::make_backend({.threads = 1})->plan(one.graph, node).kernel;
}
bool takes_winograd(const Op& op, const std::vector<ValueType>& inputs) {
  return planned_kernel(op, inputs).starts_with("own:winograd");
}
// Where oneDNN multiplies bf16 in tiles, bf16 goes other ways (decisions/0019).
bool has_tiles() {
  const ValueType matrix{DType::kBf16, {64, 64}};
  return planned_kernel(Matmul{}, {matrix, matrix}).find("amx") != std::string::npos;
}
void expect_winograd(const Op& op, const std::vector<ValueType>& inputs) {
  EXPECT_TRUE(takes_winograd(op, inputs)) << planned_kernel(op, inputs);
}

// In either type; in bf16 a processor with tiles goes other ways, whose sums depend on the threads.
void check_filters(OpCase c) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    c.dtypes = {dtype};
    c.thread_invariant =
        takes_winograd(c.op, {{dtype, c.inputs[0].dims}, {dtype, c.inputs[1].dims}});
    check_op(c, grad_weight_reference);
  }
}

// What the transforms add to the error of a sum over channels. With 32 channels the standard error
// at the worst place of a tile is 14 u of the result's rms, found in NumPy (decisions/0005); ten of
// them, as for any sum, are 4 * (sqrt(9 * 32) + 18) u. More channels leave more room, and so do
// windows of 5x5, with 12 u.
constexpr double kTransformUlps = 18;

Accuracy winograd_sum_of(int64_t channels, int64_t window = 9) {
  return {.terms = window * channels, .ulps = kTransformUlps};
}

TEST(Winograd, EveryPadding) {
  if (!has_winograd()) GTEST_SKIP() << "the baseline kernels do not use it";
  for (const ConvolutionShape& s : winograd_shapes()) {
    const Dims y = output_of(s.g, s.x, s.w);
    const int64_t window = s.w[1] * s.w[2];
    const OpCase forward{
        s.name, Conv2d{.geometry = s.g}, {{s.x}, {s.w}}, winograd_sum_of(s.w[3], window)};
    const OpCase data{s.name + ", image",
                      Conv2dGradData{s.g, s.x},
                      {{y}, {s.w}},
                      winograd_sum_of(s.w[0], window)};
    const OpCase weight{s.name + ", filters",
                        Conv2dGradWeight{.geometry = s.g, .w_dims = s.w},
                        {{s.x}, {y}},
                        of_rounded_product({.terms = y[0] * y[1] * y[2]})};
    expect_winograd(forward.op, {{DType::kF32, s.x}, {DType::kF32, s.w}});
    expect_winograd(data.op, {{DType::kF32, y}, {DType::kF32, s.w}});
    check_op(forward, conv_reference);
    check_op(data, grad_data_reference);
    if (window != 9) continue;
    expect_winograd(weight.op, {{DType::kF32, s.x}, {DType::kF32, y}});
    if (!has_tiles()) expect_winograd(weight.op, {{DType::kBf16, s.x}, {DType::kBf16, y}});
    check_filters(weight);
    OpCase with_bias = weight;
    with_bias.op = Conv2dGradWeight{.geometry = s.g, .w_dims = s.w, .has_bias = true};
    check_filters(with_bias);
  }
}

// Windows with a stride, holes, or that reach out on every side; pixels, filters and channels that
// do and do not fill what the kernel takes at a time, and taps of whose channels it takes only a
// part.
TEST(Conv2d, InPanels) {
  const auto strided = [](int64_t rows, int64_t columns, int64_t dilation) {
    return ConvGeometry{.stride = {rows, columns},
                        .pad_begin = {dilation, 0},
                        .pad_end = {0, 2},
                        .dilation = {dilation, 1}};
  };
  const bool expected = !libraries_need_alignment() && cpu::kernels().isa == std::string("avx2");
  for (const ConvolutionShape& s :
       {ConvolutionShape{"3x3 of stride 2", {2, 17, 14, 32}, {48, 3, 3, 32}, padded(1, 2)},
        ConvolutionShape{"in three images of few pixels", {3, 4, 5, 67}, {17, 3, 3, 67}, padded(1)},
        ConvolutionShape{"uneven", {1, 11, 12, 35}, {40, 3, 2, 35}, strided(3, 1, 2)},
        ConvolutionShape{"5x5", {1, 7, 6, 72}, {33, 5, 5, 72}, padded(3)},
        ConvolutionShape{"many channels", {1, 5, 5, 523}, {31, 3, 3, 523}, padded(1, 2)},
        ConvolutionShape{"one pixel", {1, 3, 3, 300}, {16, 3, 3, 300}, padded(0)}}) {
    OpCase c{s.name, Conv2d{.geometry = s.g}, {{s.x}, {s.w}}, {.terms = s.w.numel() / s.w[0]}};
    const std::string kernel = planned_kernel(c.op, {{DType::kF32, s.x}, {DType::kF32, s.w}});
    EXPECT_EQ(kernel == "own:product:avx2", expected) << s.name << ": " << kernel;
    c.thread_invariant = expected;
    check_op(c, conv_reference);
  }
  for (const ActivationKind kind : all_activations()) {
    const Dims x{1, 9, 9, 32}, w{24, 3, 3, 32}, y{1, 5, 5, 24};
    OpCase c{cat("activation ", static_cast<int>(kind)),
             Conv2d{padded(1, 2), true, true, kind},
             {{x}, {w, {}, Recipe::uniform(-0.2, 0.2)}, bias_of(24), {y}},
             {.terms = 9 * 32, .ulps = activation_ulps(kind)}};
    c.thread_invariant = expected;
    check_op(c, conv_reference);
  }
}

// On processors with tiles, of many channels; odd sizes, and windows on every side of them.
TEST(Conv2dGradData, OfStrideTwoInFourParts) {
  const auto strided = [](const std::array<int64_t, 2>& begin, const std::array<int64_t, 2>& end) {
    return ConvGeometry{.stride = {2, 2}, .pad_begin = begin, .pad_end = end};
  };
  for (const ConvolutionShape& s :
       {ConvolutionShape{"3x3", {2, 6, 7, 136}, {9, 3, 3, 136}, padded(1, 2)},
        ConvolutionShape{"3x3 SAME", {1, 8, 6, 130}, {17, 3, 3, 130}, strided({0, 0}, {1, 1})},
        ConvolutionShape{"2x2", {1, 6, 8, 128}, {4, 2, 2, 128}, strided({0, 0}, {0, 0})},
        ConvolutionShape{"5x4", {1, 9, 8, 129}, {3, 5, 4, 129}, strided({2, 1}, {2, 2})}}) {
    const Dims y = output_of(s.g, s.x, s.w);
    OpCase data{
        s.name, Conv2dGradData{s.g, s.x}, {{y}, {s.w}}, {.terms = s.w[0] * s.w[1] * s.w[2]}};
    data.thread_invariant = false;
    check_op(data, grad_data_reference);
    const std::string kernel = planned_kernel(data.op, {{DType::kBf16, y}, {DType::kBf16, s.w}});
    EXPECT_EQ(kernel.find("four parts") != std::string::npos, has_tiles()) << kernel;
  }
}

TEST(Winograd, EveryEpilogue) {
  if (!has_winograd()) GTEST_SKIP() << "the baseline kernels do not use it";
  const Dims x{1, 14, 15, 32}, w{48, 3, 3, 32}, y{1, 14, 15, 48};
  for (const ActivationKind kind : {ActivationKind::kNone, ActivationKind::kRelu}) {
    for (const bool bias : {false, true}) {
      for (const bool residual : {false, true}) {
        OpCase c{cat(static_cast<int>(kind), bias ? " bias" : "", residual ? " residual" : ""),
                 Conv2d{padded(1), bias, residual, kind},
                 {{x}, {w}},
                 of_rounded_product(winograd_sum_of(w[3]))};
        if (bias) c.inputs.push_back(bias_of(48));
        if (residual) c.inputs.push_back({y});
        check_op(c, conv_reference);
      }
    }
  }
}

// Enough tiles for blocks that run side by side, several blocks of the filters' gradient, and the
// order of channels' sums that many channels get.
TEST(Winograd, ManyTilesAndManyChannels) {
  if (!has_winograd()) GTEST_SKIP() << "the baseline kernels do not use it";
  for (const auto& [x, w] : {std::pair<Dims, Dims>{{4, 30, 29, 32}, {32, 3, 3, 32}},
                             std::pair<Dims, Dims>{{8, 8, 8, 160}, {144, 3, 3, 160}}}) {
    const Dims y{x[0], x[1], x[2], w[0]};
    check_op({"forward", Conv2d{.geometry = padded(1)}, {{x}, {w}}, winograd_sum_of(w[3])},
             conv_reference);
    check_filters({"filters",
                   Conv2dGradWeight{.geometry = padded(1), .w_dims = w},
                   {{x}, {y}},
                   of_rounded_product({.terms = y[0] * y[1] * y[2]})});
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
