#include <gtest/gtest.h>

#include "tests/harness/activation_reference.h"
#include "tests/harness/op_case.h"

namespace assay::test {
namespace {

// Every input pixel spreads its window over the output; what falls outside is dropped.
std::vector<Tensor> reference(const Op& op, const std::vector<Tensor>& x) {
  const auto& p = std::get<Conv2dTranspose>(op);
  const ConvGeometry& g = p.geometry;
  const Dims &in = x[0].dims, &w = x[1].dims, &out = p.y_dims;
  Tensor y{out, std::vector<double>(static_cast<size_t>(out.numel()))};
  const auto flat = [](const Dims& d, int64_t a, int64_t b, int64_t c, int64_t e) {
    return static_cast<size_t>(((a * d[1] + b) * d[2] + c) * d[3] + e);
  };
  for (int64_t i = 0; i < in.numel(); ++i) {
    const int64_t c = i % in[3], q = i / in[3] % in[2], r = i / (in[3] * in[2]) % in[1];
    const int64_t n = i / (in[3] * in[2] * in[1]);
    const int64_t first = c / (in[3] / g.groups) * w[3];  // first output channel of the group
    for (int64_t a = 0; a < w[1]; ++a)
      for (int64_t b = 0; b < w[2]; ++b) {
        const int64_t h = r * g.stride[0] - g.pad_begin[0] + a * g.dilation[0];
        const int64_t v = q * g.stride[1] - g.pad_begin[1] + b * g.dilation[1];
        if (h < 0 || h >= out[1] || v < 0 || v >= out[2]) continue;
        for (int64_t k = 0; k < w[3]; ++k)
          y.values[flat(out, n, h, v, first + k)] +=
              x[0].values[static_cast<size_t>(i)] * x[1].values[flat(w, c, a, b, k)];
      }
  }
  for (size_t o = 0; o < y.values.size(); ++o) {
    if (p.has_bias) y.values[o] += x[2].values[o % x[2].values.size()];
    y.values[o] = activation_reference(p.activation, y.values[o]);
  }
  return {y};
}

// TensorFlow's SAME with window 3 and stride 2: twice the size.
constexpr ConvGeometry kSame{.stride = {2, 2}, .pad_begin = {0, 0}, .pad_end = {1, 1}};

struct Shape {
  std::string name;
  Dims x, w, y;
  ConvGeometry g = kSame;
};

const std::vector<Shape> kShapes{
    {"one pixel", {1, 1, 1, 1}, {1, 3, 3, 1}, {1, 2, 2, 1}},
    {"odd sizes", {2, 5, 7, 3}, {3, 3, 3, 5}, {2, 10, 14, 5}},
    {"whole vectors", {2, 4, 4, 32}, {32, 3, 3, 16}, {2, 8, 8, 16}},
    {"many channels", {2, 3, 2, 64}, {64, 3, 3, 17}, {2, 6, 4, 17}},
    {"more than one piece", {1, 20, 22, 17}, {17, 3, 3, 24}, {1, 40, 44, 24}},
    {"2x2 window", {2, 3, 4, 6}, {6, 2, 2, 4}, {2, 6, 8, 4}, {.stride = {2, 2}}},
    {"stride 1",
     {1, 6, 5, 4},
     {4, 3, 3, 8},
     {1, 6, 5, 8},
     {.pad_begin = {1, 1}, .pad_end = {1, 1}}},
    {"sides differ",
     {1, 4, 3, 4},
     {4, 2, 3, 5},
     {1, 3, 4, 5},
     {.stride = {1, 2}, .pad_begin = {1, 0}, .pad_end = {1, 3}}},
};

TEST(Conv2dTranspose, ValuesAndGradients) {
  for (const Shape& s : kShapes) {
    const int64_t terms = s.w[0] * s.w[1] * s.w[2];
    for (const bool bias : {false, true}) {
      for (const auto kind :
           {ActivationKind::kNone, ActivationKind::kRelu, ActivationKind::kTanh}) {
        OpCase c{cat(s.name, bias ? " bias " : " ", static_cast<int>(kind)),
                 Conv2dTranspose{s.g, s.y, bias, kind},
                 {{s.x}, {s.w}},
                 {.terms = terms, .magnitude = 1, .ulps = 16, .roundings = 3},
                 {0, 1}};
        if (bias) c.inputs.push_back({{s.y[3]}, DType::kF32}), c.gradients.push_back(2);
        // The mask of relu jumps where central differences cross zero.
        if (kind == ActivationKind::kRelu) c.gradients.clear();
        c.thread_invariant = false;
        check_op(c, reference);
      }
    }
  }
}

TEST(Conv2dTranspose, DropsTheLastContributionAsTensorFlowDoes) {
  const Conv2dTranspose row{{.stride = {1, 2}, .pad_end = {0, 1}}, {1, 1, 4, 1}};
  const RunResult got = run_node(row, {{{1, 1, 2, 1}, {1, 2}}, {{1, 1, 3, 1}, {1, 10, 100}}},
                                 {DType::kF32, DType::kF32});
  EXPECT_EQ(decode(got.outputs[0], {DType::kF32, {4}}).values,
            (std::vector<double>{1, 10, 102, 20}));
}

TEST(Conv2dTranspose, RefusesSizesThatNoConvolutionGives) {
  const ValueType x{DType::kF32, {1, 4, 4, 2}}, w{DType::kF32, {2, 3, 3, 5}};
  EXPECT_NO_THROW(make_node(Conv2dTranspose{kSame, {1, 8, 8, 5}}, {x, w}));
  for (const Dims& y : {Dims{1, 10, 8, 5}, Dims{1, 8, 6, 5}, Dims{1, 8, 8, 4}, Dims{2, 8, 8, 5},
                        Dims{1, 1, 1, 5}, Dims{8, 8, 5}})
    EXPECT_THROW(make_node(Conv2dTranspose{kSame, y}, {x, w}), Error) << to_text(y);
}

}  // namespace
}  // namespace assay::test
