// MaxPool, AvgPool and their gradients.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/harness/activation_reference.h"
#include "tests/harness/op_case.h"
#include "tests/harness/windows.h"

namespace assay::test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Tensor filled(const Dims& dims, double value) {
  return {dims, std::vector<double>(static_cast<size_t>(dims.numel()), value)};
}

std::vector<Tensor> max_reference(const Op& op, const std::vector<Tensor>& x) {
  const PoolGeometry& g = std::get<MaxPool>(op).geometry;
  Tensor y = filled(pooled_dims(g, x[0].dims), -1e300);
  for_windows(g, x[0].dims, y.dims, [&](size_t o, size_t i, int64_t) {
    y.values[o] = std::max(y.values[o], x[0].values[i]);
  });
  return {y};
}

std::vector<Tensor> avg_reference(const Op& op, const std::vector<Tensor>& x) {
  const PoolGeometry& g = std::get<AvgPool>(op).geometry;
  Tensor y = filled(pooled_dims(g, x[0].dims), 0), count = y;
  for_windows(g, x[0].dims, y.dims, [&](size_t o, size_t i, int64_t) {
    y.values[o] += x[0].values[i];
    ++count.values[o];
  });
  for (size_t o = 0; o < y.values.size(); ++o) y.values[o] /= count.values[o];
  return {y};
}

struct Shape {
  PoolGeometry geometry;
  Dims x;
};
const std::vector<Shape> kShapes{
    {{}, {1, 2, 2, 1}},
    {{}, {2, 7, 9, 3}},  // an edge no window covers
    {{}, {3, 8, 6, 33}},
    {{}, {4, 28, 28, 32}},
    {{.window = {3, 3}, .stride = {2, 2}, .pad_begin = {1, 1}, .pad_end = {1, 1}}, {2, 9, 10, 5}},
    {{.window = {3, 3}, .stride = {2, 2}, .pad_begin = {1, 1}, .pad_end = {1, 1}}, {2, 16, 15, 40}},
    {{.window = {3, 2}, .stride = {1, 2}, .pad_begin = {0, 1}, .pad_end = {2, 0}}, {2, 6, 7, 17}},
    {{.window = {2, 2}, .stride = {3, 3}}, {2, 8, 8, 4}},    // gaps between windows
    {{.window = {4, 5}, .stride = {4, 5}}, {3, 4, 5, 520}},  // the whole image, many channels
};

TEST(MaxPool, ValuesAndGradients) {
  for (const Shape& s : kShapes) {
    check_op({to_text(s.x), MaxPool{s.geometry}, {{s.x, {}, Recipe::distinct()}}, {}, {0}},
             max_reference);
  }
}

TEST(AvgPool, ValuesAndGradients) {
  for (const Shape& s : kShapes) {
    const int64_t window = s.geometry.window[0] * s.geometry.window[1];
    check_op({to_text(s.x), AvgPool{s.geometry}, {{s.x}}, {window, 1}, {0}}, avg_reference);
  }
}

// Gradients alone, on sizes that run in parallel, in every binding in place.
TEST(MaxPoolGrad, BitsDoNotDependOnThreadsOrPlace) {
  for (const Shape& s :
       {Shape{{}, {5, 29, 28, 9}},
        Shape{{.window = {3, 3}, .stride = {2, 2}, .pad_begin = {1, 1}, .pad_end = {1, 1}},
              {5, 29, 28, 9}}}) {
    const Dims y = pooled_dims(s.geometry, s.x);
    const OpCase c{"", MaxPoolGrad{s.geometry}, {{s.x, {}, Recipe::integer(-1, 1)}, {y}}};
    for (const DType dtype : c.dtypes) check_bits(c, dtype);
    const OpCase avg{"", AvgPoolGrad{s.geometry, s.x}, {{y}}};
    for (const DType dtype : avg.dtypes) check_bits(avg, dtype);
  }
}

Tensor max_grad(const PoolGeometry& g, const Tensor& x, const Tensor& dy) {
  const std::vector<DType> f32(2, DType::kF32);
  const RunResult backward = run_node(MaxPoolGrad{g}, {x, dy}, f32);
  return decode(backward.outputs[0], {DType::kF32, x.dims});
}

// dy goes to the first maximum in row-major order; so do ties of a whole window.
Tensor first_maximum_reference(const PoolGeometry& g, const Tensor& x, const Tensor& dy) {
  std::vector<size_t> winner(dy.values.size(), static_cast<size_t>(-1));
  for_windows(g, x.dims, dy.dims, [&](size_t o, size_t i, int64_t) {
    if (winner[o] == static_cast<size_t>(-1) || x.values[i] > x.values[winner[o]]) winner[o] = i;
  });
  Tensor dx = filled(x.dims, 0);
  for (size_t o = 0; o < winner.size(); ++o) dx.values[winner[o]] += dy.values[o];
  return dx;
}

TEST(MaxPoolGrad, TiesGoToTheFirst) {
  for (const Shape& s : kShapes) {
    OpCase c{"", MaxPool{s.geometry}, {{s.x, {}, Recipe::integer(0, 1)}}};
    const Tensor x = make_inputs(c, DType::kF32)[0];
    Tensor dy = filled(pooled_dims(s.geometry, s.x), 0);
    for (size_t o = 0; o < dy.values.size(); ++o) dy.values[o] = static_cast<double>(o % 64 + 1);
    EXPECT_EQ(max_grad(s.geometry, x, dy).values, first_maximum_reference(s.geometry, x, dy).values)
        << to_text(s.x);
  }
}

// The gradient with what is joined to it; inputs x, dy, and addend if has_addend.
std::vector<Tensor> joined_reference(const Op& op, const std::vector<Tensor>& x) {
  const auto& p = std::get<MaxPoolGrad>(op);
  Tensor dx = first_maximum_reference(p.geometry, x[0], x[1]);
  for (size_t i = 0; i < dx.values.size(); ++i) {
    if (p.has_addend) dx.values[i] += x[2].values[i];
    dx.values[i] *= derivative_reference(p.activation, x[0].values[i]);
  }
  return {dx};
}

TEST(MaxPoolGrad, WithWhatIsJoinedToIt) {
  for (const Shape& s : kShapes) {
    const Dims y = pooled_dims(s.geometry, s.x);
    for (const ActivationKind kind :
         {ActivationKind::kNone, ActivationKind::kRelu, ActivationKind::kTanh}) {
      const Accuracy accuracy{.terms = 4, .magnitude = 16, .ulps = 4, .roundings = 2};
      const OpCase alone{cat(to_text(s.x), " ", static_cast<int>(kind)),
                         MaxPoolGrad{s.geometry, false, kind},
                         {{s.x, {}, Recipe::distinct()}, {y}},
                         accuracy};
      check_op(alone, joined_reference);
      OpCase c = alone;
      c.name += " with an addend";
      c.op = MaxPoolGrad{s.geometry, true, kind};
      c.inputs.push_back({s.x});
      check_op(c, joined_reference);
    }
  }
}

TEST(MaxPoolGrad, RefusesAnAddendOfAnotherShape) {
  const ValueType x{DType::kF32, {2, 6, 6, 3}}, y{DType::kF32, {2, 3, 3, 3}};
  EXPECT_NO_THROW(make_node(MaxPoolGrad{{}, true}, {x, y, x}));
  EXPECT_THROW(make_node(MaxPoolGrad{{}, true}, {x, y, y}), Error);
}

TEST(MaxPool, NaNWinsAndTakesTheGradient) {
  const PoolGeometry overlapping{.window = {2, 2}, .stride = {1, 1}};
  for (size_t at = 0; at < 4; ++at) {
    for (const PoolGeometry& g : {PoolGeometry{}, overlapping}) {
      Tensor x{{1, 2, 2, 1}, {4, 3, 2, 1}};
      x.values[at] = kNaN;
      const RunResult forward = run_node(MaxPool{g}, {x}, {DType::kF32});
      EXPECT_TRUE(std::isnan(decode(forward.outputs[0], {DType::kF32, {1, 1, 1, 1}}).values[0]));
      std::vector<double> expected(4, 0);
      expected[at] = 7;
      EXPECT_EQ(max_grad(g, x, {{1, 1, 1, 1}, {7}}).values, expected);
    }
  }
}

TEST(MaxPool, NegativeInfinityIsAValueAndPaddingIsNot) {
  const double inf = std::numeric_limits<double>::infinity();
  const PoolGeometry g{.window = {3, 3}, .stride = {2, 2}, .pad_begin = {1, 1}, .pad_end = {1, 1}};
  const Tensor x = filled({1, 4, 4, 2}, -inf);
  const RunResult forward = run_node(MaxPool{g}, {x}, {DType::kF32});
  EXPECT_EQ(decode(forward.outputs[0], {DType::kF32, {1, 2, 2, 2}}).values,
            std::vector<double>(8, -inf));
  const Tensor dy = filled({1, 2, 2, 2}, 1);
  EXPECT_EQ(max_grad(g, x, dy).values, first_maximum_reference(g, x, dy).values);
}

}  // namespace
}  // namespace assay::test
