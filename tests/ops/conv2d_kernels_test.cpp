// Sizes for which the CPU backend has convolutions of its own, and takes them. Elsewhere a library
// computes the same.
#include <gtest/gtest.h>

#include "sdk/backend/cpu/ops/conv_slabs.h"
#include "tests/ops/conv2d_reference.h"
#include "tests/ops/cpu_plans.h"

namespace assay::test {
namespace {

// Of the CPU backend: elsewhere a library is in its place, which wants its operands aligned.
bool has_winograd() {
  return !libraries_need_alignment() && cpu::kernels().winograd[0]->lanes >= 8;
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

// Of the backend under test.
bool has_panels() { return !libraries_need_alignment() && plans_panels(); }

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

// Of f32, and of bf16, which is widened.
void expect_in_panels(OpCase& c, std::string_view expected = "own:product:avx2") {
  for (const DType dtype : {DType::kF32, DType::kBf16})
    EXPECT_EQ(planned_kernel(c, dtype) == expected, plans_panels())
        << c.name << ": " << planned_kernel(c, dtype);
  c.thread_invariant = has_panels();
}

// Windows with a stride, holes, or that reach out on every side; pixels, filters and channels that
// do and do not fill what the kernel takes at a time, and taps of whose channels it takes only a
// part.
TEST(PanelConvolution, Forward) {
  const auto strided = [](int64_t rows, int64_t columns, int64_t dilation) {
    return ConvGeometry{.stride = {rows, columns},
                        .pad_begin = {dilation, 0},
                        .pad_end = {0, 2},
                        .dilation = {dilation, 1}};
  };
  for (const ConvolutionShape& s :
       {ConvolutionShape{"3x3 of stride 2", {2, 17, 14, 32}, {48, 3, 3, 32}, padded(1, 2)},
        ConvolutionShape{"in three images of few pixels", {3, 4, 5, 67}, {17, 3, 3, 67}, padded(1)},
        ConvolutionShape{"uneven", {1, 11, 12, 35}, {40, 3, 2, 35}, strided(3, 1, 2)},
        ConvolutionShape{"5x5", {1, 7, 6, 72}, {33, 5, 5, 72}, padded(3)},
        ConvolutionShape{"many channels", {1, 5, 5, 523}, {31, 3, 3, 523}, padded(1, 2)},
        ConvolutionShape{"one pixel", {1, 3, 3, 300}, {16, 3, 3, 300}, padded(0)}}) {
    OpCase c{s.name, Conv2d{.geometry = s.g}, {{s.x}, {s.w}}, {.terms = s.w.numel() / s.w[0]}};
    expect_in_panels(c);
    check_op(c, conv_reference);
  }
  for (const ActivationKind kind : all_activations()) {
    const Dims x{1, 9, 9, 32}, w{24, 3, 3, 32}, y{1, 5, 5, 24};
    OpCase c{cat("activation ", static_cast<int>(kind)),
             Conv2d{padded(1, 2), true, true, kind},
             {{x}, {w, {}, Recipe::uniform(-0.05, 0.05)}, bias_of(24), {y}},
             of_rounded_product({.terms = 9 * 32, .ulps = activation_ulps(kind)})};
    c.thread_invariant = has_panels();
    check_op(c, conv_reference);
  }
}

// Only of bf16, with a residual, and if all that is much.
TEST(PanelConvolution, OfOnePixel) {
  const Dims x{1, 64, 65, 64}, w{257, 1, 1, 64}, y{1, 64, 65, 257};
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    OpCase c{"residual",
             Conv2d{.has_residual = true},
             {{x}, {w}, {y}},
             of_rounded_product({.terms = 64})};
    const bool in_panels = dtype == DType::kBf16 && plans_panels();
    EXPECT_EQ(planned_kernel(c, dtype) == "own:product:avx2", in_panels)
        << planned_kernel(c, dtype);
    c.dtypes = {dtype};
    c.thread_invariant = in_panels && has_panels();
    check_op(c, conv_reference);
  }
}

ConvGeometry of_stride_two(const std::array<int64_t, 2>& begin, const std::array<int64_t, 2>& end) {
  return {.stride = {2, 2}, .pad_begin = begin, .pad_end = end};
}

// Every other row and column apart: odd sizes, also of several images, windows on every side of
// them, and rows of the image that no window meets.
TEST(PanelConvolution, Transposed) {
  for (const ConvolutionShape& s :
       {ConvolutionShape{"3x3", {2, 7, 6, 33}, {64, 3, 3, 33}, padded(1, 2)},
        ConvolutionShape{"3x3 SAME", {3, 8, 6, 16}, {67, 3, 3, 16}, of_stride_two({0, 0}, {1, 1})},
        ConvolutionShape{"2x2", {1, 6, 8, 40}, {70, 2, 2, 40}, of_stride_two({0, 0}, {0, 0})},
        ConvolutionShape{"5x4", {2, 9, 8, 17}, {64, 5, 4, 17}, of_stride_two({2, 1}, {2, 2})},
        ConvolutionShape{
            "last row unmet", {2, 10, 9, 24}, {64, 3, 3, 24}, of_stride_two({0, 0}, {0, 0})}}) {
    const Dims y = output_of(s.g, s.x, s.w);
    OpCase c{s.name, Conv2dGradData{s.g, s.x}, {{y}, {s.w}}, {.terms = s.w.numel() / s.w[3]}};
    expect_in_panels(c);
    check_op(c, grad_data_reference);
    c.name += " times the derivative of relu";
    c.op = Conv2dGradData{s.g, s.x, ActivationKind::kRelu};
    c.inputs.push_back({s.x});
    check_op(c, grad_data_reference);
  }
}

// y [n][h][w][c] = act(what x spreads over it + bias).
std::vector<Tensor> transposed_reference(const Op& op, const std::vector<Tensor>& x) {
  const auto& p = std::get<Conv2dTranspose>(op);
  Tensor y = grad_data_reference(Conv2dGradData{p.geometry, p.y_dims}, x)[0];
  for (size_t i = 0; i < y.values.size(); ++i)
    y.values[i] = activation_reference(
        p.activation, y.values[i] + (p.has_bias ? x[2].values[i % x[2].values.size()] : 0));
  return {y};
}

TEST(PanelConvolution, TransposedWithEveryEpilogue) {
  const Dims x{2, 4, 5, 64}, w{64, 3, 3, 19}, y{2, 8, 10, 19};
  const ConvGeometry g = of_stride_two({0, 0}, {1, 1});
  for (const ActivationKind kind : all_activations()) {
    for (const bool bias : {false, true}) {
      OpCase c{cat("activation ", static_cast<int>(kind), bias ? ", bias" : ""),
               Conv2dTranspose{g, y, bias, kind},
               {{x}, {w, {}, Recipe::uniform(-0.2, 0.2)}},
               {.terms = 9 * 64, .ulps = activation_ulps(kind)}};
      if (bias) c.inputs.push_back(bias_of(19));
      expect_in_panels(c);
      for (const DType dtype : {DType::kF32, DType::kBf16}) {
        c.dtypes = {dtype};
        // Elsewhere what follows the convolution finds it rounded.
        if (dtype == DType::kBf16 && (!has_panels() || convolutions_are_of_one_type()))
          c.accuracy.magnitude = 1, c.accuracy.roundings = 3;
        check_op(c, transposed_reference);
      }
    }
  }
}

// Windows with a stride, holes, or that reach out on every side; pixels that are cut into slices
// whose last steps have few or none, columns and filters that fill no panel.
TEST(PixelSum, EveryWindow) {
  const ConvGeometry gaps{
      .stride = {3, 2}, .pad_begin = {2, 3}, .pad_end = {1, 4}, .dilation = {2, 3}};
  for (const ConvolutionShape& s :
       {ConvolutionShape{"3x3 of stride 2", {2, 23, 34, 64}, {70, 3, 3, 64}, padded(1, 2)},
        ConvolutionShape{"7x7 of three channels", {1, 70, 75, 3}, {64, 7, 7, 3}, padded(3, 2)},
        ConvolutionShape{"3x3 of one channel", {1, 61, 58, 1}, {67, 3, 3, 1}, padded(2)},
        ConvolutionShape{"gaps", {2, 17, 16, 19}, {9, 2, 3, 19}, gaps},
        ConvolutionShape{"wider than the image", {3, 2, 3, 20}, {6, 5, 5, 20}, padded(3)},
        ConvolutionShape{"1x1", {2, 27, 23, 66}, {40, 1, 1, 66}, {}},
        ConvolutionShape{"1x1 of stride 2", {1, 61, 33, 1030}, {5, 1, 1, 1030}, padded(0, 2)},
        ConvolutionShape{"one pixel", {1, 1, 1, 80}, {30, 2, 2, 80}, padded(1)}}) {
    const Dims y = output_of(s.g, s.x, s.w);
    for (const bool bias : {false, true}) {
      OpCase c{cat(s.name, bias ? ", bias" : ""),
               Conv2dGradWeight{s.g, s.w, DType::kF32, bias},
               {{s.x}, {y}},
               of_rounded_product({.terms = y[0] * y[1] * y[2]})};
      expect_in_panels(c, "own:pixel_sum:avx2");
      check_op(c, grad_weight_reference);
    }
  }
}

// On processors with tiles, of many channels; odd sizes, and windows on every side of them.
TEST(Conv2dGradData, OfStrideTwoInFourParts) {
  for (const ConvolutionShape& s :
       {ConvolutionShape{"3x3", {2, 6, 7, 136}, {9, 3, 3, 136}, padded(1, 2)},
        ConvolutionShape{
            "3x3 SAME", {1, 8, 6, 130}, {17, 3, 3, 130}, of_stride_two({0, 0}, {1, 1})},
        ConvolutionShape{"2x2", {1, 6, 8, 128}, {4, 2, 2, 128}, of_stride_two({0, 0}, {0, 0})},
        ConvolutionShape{"5x4", {1, 9, 8, 129}, {3, 5, 4, 129}, of_stride_two({2, 1}, {2, 2})}}) {
    const Dims y = output_of(s.g, s.x, s.w);
    OpCase data{
        s.name, Conv2dGradData{s.g, s.x}, {{y}, {s.w}}, {.terms = s.w[0] * s.w[1] * s.w[2]}};
    data.thread_invariant = false;
    check_op(data, grad_data_reference);
    const std::string kernel = planned_kernel(data.op, {{DType::kBf16, y}, {DType::kBf16, s.w}});
    EXPECT_EQ(kernel.find("four parts") != std::string::npos, has_tiles()) << kernel;
  }
}

ConvGeometry with_gaps() {
  return {.stride = {2, 3}, .pad_begin = {3, 0}, .pad_end = {2, 1}, .dilation = {2, 1}};
}

// Every tap of every row meets the row of x that it meets in the whole image, or padding.
TEST(Slabs, ReadWhatTheWholeConvolutionReads) {
  for (const ConvolutionShape& s :
       {ConvolutionShape{"3x3", {1, 25, 9, 4}, {4, 3, 3, 4}, padded(1)},
        ConvolutionShape{"of stride 3", {1, 26, 9, 4}, {4, 2, 2, 4}, {.stride = {3, 3}}},
        ConvolutionShape{"gaps", {1, 31, 9, 4}, {4, 5, 2, 4}, with_gaps()}}) {
    const Dims y = output_of(s.g, s.x, s.w);
    for (const int64_t count : {1, 2, 3, 7}) {
      const std::vector<cpu::Slab> slabs = cpu::slabs_of(s.g, s.x, s.w, y, count);
      ASSERT_EQ(slabs.size(), static_cast<size_t>(count)) << s.name;
      int64_t row = 0;
      for (const cpu::Slab& slab : slabs) {
        EXPECT_EQ(output_of(slab.geometry, {1, slab.x_rows, s.x[2], s.x[3]}, s.w)[1], slab.y_rows);
        EXPECT_EQ(slab.y_first, row);
        for (int64_t i = 0; i < slab.y_rows; ++i, ++row) {
          for (int64_t tap = 0; tap < s.w[1]; ++tap) {
            const int64_t offset = tap * s.g.dilation[0];
            const int64_t whole = row * s.g.stride[0] - s.g.pad_begin[0] + offset;
            const int64_t part = i * s.g.stride[0] - slab.geometry.pad_begin[0] + offset;
            const bool is_inside = whole >= 0 && whole < s.x[1];
            ASSERT_EQ(part >= 0 && part < slab.x_rows, is_inside) << s.name << " row " << row;
            if (is_inside) {
              ASSERT_EQ(slab.x_first + part, whole) << s.name << " row " << row;
            }
          }
        }
      }
      EXPECT_EQ(row, y[1]);
    }
  }
  EXPECT_TRUE(cpu::slabs_of(padded(9), {1, 4, 4, 4}, {4, 3, 3, 4}, {1, 20, 20, 4}, 4).empty());
}

// bf16 of large images on processors with tiles for it, where oneDNN would bring all of an image
// into another order. Windows with a stride, holes, and on every side.
TEST(Conv2dGradWeight, OfLargeImagesInSlabs) {
  if (libraries_need_alignment()) GTEST_SKIP() << "the CPU backend's plans";
  for (const ConvolutionShape& s :
       {ConvolutionShape{"3x3", {1, 520, 520, 16}, {8, 3, 3, 16}, padded(1, 2)},
        ConvolutionShape{"two images", {2, 370, 730, 16}, {8, 2, 2, 16}, {.stride = {3, 3}}},
        ConvolutionShape{"gaps", {1, 611, 240, 32}, {8, 5, 2, 32}, with_gaps()}}) {
    const Dims y = output_of(s.g, s.x, s.w);
    for (const DType result : {DType::kF32, DType::kBf16}) {
      OpCase c{cat(s.name, " ", result),
               Conv2dGradWeight{s.g, s.w, result, result == DType::kF32},
               {{s.x}, {y}},
               of_rounded_product({.terms = y[0] * y[1] * y[2]})};
      c.dtypes = {DType::kBf16};
      c.thread_invariant = false;
      if (planned_kernel(c, DType::kBf16).find("slabs") == std::string::npos) {
        EXPECT_FALSE(has_tiles()) << c.name << ": " << planned_kernel(c, DType::kBf16);
      } else {
        check_op(c, grad_weight_reference);
      }
    }
  }
}

// Transformed filters that no cache holds must be made up for by tiles, by more of them where
// oneDNN has kernels of bf16. Here are 49.
TEST(Winograd, FewTiles) {
  if (!has_winograd()) GTEST_SKIP() << "the baseline kernels do not use it";
  const Dims x{1, 28, 28, 320}, w{224, 3, 3, 320}, y{1, 28, 28, 224};
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    const bool expected = dtype == DType::kF32 || plans_panels();
    EXPECT_EQ(takes_winograd(Conv2d{.geometry = padded(1)}, {{dtype, x}, {dtype, w}}), expected);
    EXPECT_EQ(takes_winograd(Conv2dGradData{padded(1), x}, {{dtype, y}, {dtype, w}}), expected);
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

}  // namespace
}  // namespace assay::test
