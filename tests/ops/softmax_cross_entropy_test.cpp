// Softmax, SoftmaxCrossEntropy and its gradient, TopK, TopKCorrect.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/harness/error_of.h"
#include "tests/harness/op_case.h"

namespace assay::test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// log softmax of row r.
std::vector<double> log_softmax(const Tensor& x, int64_t r) {
  const auto begin = x.values.begin() + r * x.dims[1];
  std::vector<double> row(begin, begin + x.dims[1]);
  const double largest = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const double v : row) sum += std::exp(v - largest);
  for (double& v : row) v -= largest + std::log(sum);
  return row;
}

std::vector<Tensor> softmax_reference(const Op& op, const std::vector<Tensor>& x) {
  Tensor y{x[0].dims, {}};
  for (int64_t r = 0; r < y.dims[0]; ++r) {
    for (const double v : log_softmax(x[0], r))
      y.values.push_back(std::get<Softmax>(op).log ? v : std::exp(v));
  }
  return {y};
}

std::vector<Tensor> loss_reference(const Op& op, const std::vector<Tensor>& x) {
  const auto& p = std::get<SoftmaxCrossEntropy>(op);
  const double s = p.label_smoothing;
  const int64_t rows = x[0].dims[0], classes = x[0].dims[1];
  double loss = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const auto label = static_cast<int64_t>(x[1].values[r]);
    if (label == -1) continue;
    const std::vector<double> log_p = log_softmax(x[0], r);
    loss -= (1 - s) * log_p[label];
    for (const double v : log_p) loss -= s / static_cast<double>(classes) * v;
  }
  return {{{}, {p.reduction == Reduction::kMean ? loss / static_cast<double>(rows) : loss}}};
}

const std::vector<Dims> kShapes{{1, 1}, {3, 5}, {128, 10}, {7, 33}, {5, 1000}, {700, 17}};

TEST(Softmax, Values) {
  for (const Dims& dims : kShapes) {
    check_op({to_text(dims), Softmax{}, {{dims, {}, Recipe::uniform(-9, 9)}}, {dims[1], 0, 16}},
             softmax_reference);
    check_op({cat("log ", dims),
              Softmax{.log = true},
              {{dims, {}, Recipe::uniform(-9, 9)}},
              {.terms = dims[1], .magnitude = 20, .ulps = 4}},
             softmax_reference);
  }
}

TEST(Softmax, SurvivesHugeLogits) {
  const Tensor x{{2, 3}, {3e38, -3e38, 0, -1e30, -1e30, -1e30}};
  const RunResult got = run_node(Softmax{}, {x}, {DType::kF32});
  const std::vector<double> y = decode(got.outputs[0], {DType::kF32, x.dims}).values;
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[1], 0);
  EXPECT_NEAR(y[3], 1.0 / 3, 1e-7);
  const RunResult logs = run_node(Softmax{.log = true}, {x}, {DType::kF32});
  const std::vector<double> log_y = decode(logs.outputs[0], {DType::kF32, x.dims}).values;
  EXPECT_EQ(log_y[0], 0);
  EXPECT_LT(log_y[2], -2e38);
  EXPECT_NEAR(log_y[3], -std::log(3), 1e-7);
}

TEST(SoftmaxCrossEntropy, ValuesAndGradients) {
  for (const Dims& dims : kShapes) {
    for (const float smoothing : {0.0f, 0.1f}) {
      for (const bool mean : {false, true}) {
        const Argument labels{{dims[0]}, DType::kI32, Recipe::integer(-1, dims[1] - 1)};
        // The sum of the losses is rounded once; its terms are about 10 each.
        const double rows = static_cast<double>(dims[0]);
        check_op({to_text(dims),
                  SoftmaxCrossEntropy{smoothing, mean ? Reduction::kMean : Reduction::kSum},
                  {{dims, {}, Recipe::uniform(-9, 9)}, labels},
                  {.terms = dims[1], .magnitude = mean ? 10 : 10 * std::sqrt(rows), .ulps = 16},
                  {0}},
                 loss_reference);
      }
    }
  }
}

// The gradient's own tolerance above is that of the loss; here it is that of a probability.
TEST(SoftmaxCrossEntropyGrad, IsSoftmaxMinusTarget) {
  const Reference reference = [](const Op& op, const std::vector<Tensor>& x) {
    const auto& p = std::get<SoftmaxCrossEntropyGrad>(op);
    const int64_t rows = x[0].dims[0], classes = x[0].dims[1];
    Tensor dx{x[0].dims, {}};
    for (int64_t r = 0; r < rows; ++r) {
      const auto label = static_cast<int64_t>(x[1].values[r]);
      const std::vector<double> log_p = log_softmax(x[0], r);
      for (int64_t c = 0; c < classes; ++c) {
        const double q = (1 - p.label_smoothing) * (c == label) +
                         p.label_smoothing / static_cast<double>(classes);
        const double factor =
            x[2].values[0] / (p.reduction == Reduction::kMean ? static_cast<double>(rows) : 1);
        dx.values.push_back(label == -1 ? 0 : factor * (std::exp(log_p[c]) - q));
      }
    }
    return std::vector<Tensor>{dx};
  };
  for (const Dims& dims : kShapes) {
    for (const bool mean : {false, true}) {
      check_op({to_text(dims),
                SoftmaxCrossEntropyGrad{0.1f, mean ? Reduction::kMean : Reduction::kSum},
                {{dims, {}, Recipe::uniform(-9, 9)},
                 {{dims[0]}, DType::kI32, Recipe::integer(-1, dims[1] - 1)},
                 {{}, DType::kF32, Recipe::listed({0.75})}},
                {.terms = dims[1],
                 .magnitude = mean ? 1.0 / static_cast<double>(dims[0]) : 1,
                 .ulps = 16}},
               reference);
    }
  }
}

// Over the rows that count, of the classes that a table has before it was padded.
std::vector<Tensor> counted_reference(const Op& op, const std::vector<Tensor>& x) {
  const auto& p = std::get<SoftmaxCrossEntropy>(op);
  const int64_t rows = x[0].dims[0], columns = x[0].dims[1];
  const int64_t classes = p.classes == 0 ? columns : p.classes;
  double loss = 0, count = 0;
  Tensor logsumexp{{rows}, {}};
  for (int64_t r = 0; r < rows; ++r) {
    const auto label = static_cast<int64_t>(x[1].values[r]);
    const double* row = x[0].values.data() + r * columns;
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(row[c]);
    logsumexp.values.push_back(label == -1 ? 0 : std::log(sum));
    if (label == -1) continue;
    loss += std::log(sum) - row[label];
    ++count;
  }
  return {{{}, {loss / (count + p.epsilon)}}, {{}, {count}}, logsumexp};
}

TEST(SoftmaxCrossEntropy, MeanOverTheRowsThatCount) {
  struct Shape {
    Dims dims;
    int64_t classes;
  };
  for (const Shape& s : {Shape{{1, 3}, 0}, Shape{{6, 5}, 4}, Shape{{40, 33}, 30},
                         Shape{{9, 700}, 0}, Shape{{300, 12}, 9}}) {
    const int64_t rows = s.dims[0], classes = s.classes == 0 ? s.dims[1] : s.classes;
    OpCase c{cat(to_text(s.dims), " classes ", s.classes),
             SoftmaxCrossEntropy{0, Reduction::kCountedMean, 1e-5f, s.classes},
             {{s.dims, {}, Recipe::uniform(-9, 9)},
              {{rows}, DType::kI32, Recipe::integer(-1, classes - 1)}}};
    c.accuracy = {.terms = s.dims[1], .magnitude = 10, .ulps = 16};
    c.gradients = {0};
    check_op(c, counted_reference);
  }
}

// No slot is used: the loss is 0 by epsilon, and so is every gradient.
TEST(SoftmaxCrossEntropy, NoRowThatCountsGivesZero) {
  const Tensor x{{2, 3}, {1, 2, 3, 4, 5, 6}}, labels{{2}, {-1, -1}}, one{{}, {1}}, zero{{}, {0}};
  const auto got = run_node(SoftmaxCrossEntropy{0, Reduction::kCountedMean, 1e-5f}, {x, labels},
                            {DType::kF32, DType::kI32});
  EXPECT_EQ(decode(got.outputs[0], {DType::kF32, {}}).values[0], 0);
  EXPECT_EQ(decode(got.outputs[1], {DType::kF32, {}}).values[0], 0);
  const auto gradient =
      run_node(SoftmaxCrossEntropyGrad{0, Reduction::kCountedMean, 1e-5f}, {x, labels, one, zero},
               {DType::kF32, DType::kI32, DType::kF32, DType::kF32});
  EXPECT_EQ(decode(gradient.outputs[0], {DType::kF32, x.dims}).values, std::vector<double>(6, 0));
}

double loss_of(const Tensor& x, const Tensor& labels) {
  const RunResult got = run_node(SoftmaxCrossEntropy{}, {x, labels}, {DType::kF32, DType::kI32});
  return decode(got.outputs[0], {DType::kF32, {}}).values[0];
}

TEST(SoftmaxCrossEntropy, BadLabelsAndNaNGiveNaN) {
  const Tensor x{{2, 3}, {1, 2, 3, 4, 5, 6}};
  for (const double label : {-2.0, 3.0, 2147483647.0, -2147483648.0})
    EXPECT_TRUE(std::isnan(loss_of(x, {{2}, {0, label}}))) << label;
  EXPECT_TRUE(std::isnan(loss_of({{1, 3}, {1, kNaN, 3}}, {{1}, {0}})));
  EXPECT_TRUE(std::isnan(loss_of({{1, 3}, {1, kInfinity, 3}}, {{1}, {0}})));
}

TEST(SoftmaxCrossEntropy, SurvivesHugeLogits) {
  EXPECT_EQ(loss_of({{1, 2}, {1e30, 0}}, {{1}, {0}}), 0);
  EXPECT_FLOAT_EQ(static_cast<float>(loss_of({{1, 2}, {1e30, 0}}, {{1}, {1}})), 1e30f);
}

std::vector<Tensor> top_k_values(const Op& op, const std::vector<Tensor>& x) {
  const int64_t rows = x[0].dims[0], columns = x[0].dims[1], k = std::get<TopK>(op).k;
  Tensor value{{rows, k}, {}}, column{{rows, k}, {}};
  for (int64_t r = 0; r < rows; ++r) {
    const double* row = x[0].values.data() + r * columns;
    std::vector<int64_t> order(static_cast<size_t>(columns));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return row[a] > row[b] || (std::isnan(row[b]) && !std::isnan(row[a]));
    });
    for (int64_t i = 0; i < k; ++i) {
      value.values.push_back(row[order[static_cast<size_t>(i)]]);
      column.values.push_back(static_cast<double>(order[static_cast<size_t>(i)]));
    }
  }
  return {value, column};
}

TEST(TopK, FindsTheLargestWithTies) {
  for (const Dims& dims : kShapes) {
    for (const int64_t k : {int64_t{1}, int64_t{5}, dims[1]}) {
      if (k > dims[1] || k > 33) continue;
      check_op({{cat(dims, " k ", k), TopK{k}, {{dims, {}, Recipe::distinct()}}},
                {cat(dims, " ties, k ", k), TopK{k}, {{dims, {}, Recipe::integer(-3, 3)}}}},
               top_k_values);
    }
  }
}

TEST(TopK, NaNComesLastAndInfinityWhereItBelongs) {
  const Tensor x{{2, 5}, {kNaN, -kInfinity, 3, kNaN, kInfinity, kNaN, kNaN, kNaN, -1, kNaN}};
  const RunResult got = run_node(TopK{4}, {x}, {DType::kF32});
  EXPECT_EQ(decode(got.outputs[1], {DType::kI32, {2, 4}}).values,
            (std::vector<double>{4, 2, 1, 0, 3, 0, 1, 2}));
  const std::vector<double> value = decode(got.outputs[0], {DType::kF32, {2, 4}}).values;
  EXPECT_EQ(value[0], kInfinity);
  EXPECT_TRUE(std::isnan(value[3]));
}

TEST(TopK, SaysWhatItCannotFind) {
  const auto error = [](int64_t k) {
    return std::string(error_of([&] { make_node(TopK{k}, {{DType::kF32, {4, 5}}}); }).what());
  };
  EXPECT_THAT(error(6), testing::HasSubstr("k must be 1 to 5, the columns of x, got 6"));
  EXPECT_THAT(error(0), testing::HasSubstr("k must be 1 to 5"));
}

std::vector<Tensor> top_k_reference(const Op& op, const std::vector<Tensor>& x) {
  const int64_t rows = x[0].dims[0], classes = x[0].dims[1], k = std::get<TopKCorrect>(op).k;
  double correct = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const auto label = static_cast<int64_t>(x[1].values[r]);
    if (label < 0) continue;
    const double* row = x[0].values.data() + r * classes;
    int64_t ahead = 0;
    for (int64_t c = 0; c < classes; ++c)
      ahead += row[c] > row[label] || (row[c] == row[label] && c < label);
    correct += ahead < k;
  }
  return {{{}, {correct}}};
}

TEST(TopKCorrect, CountsWithTies) {
  for (const Dims& dims : kShapes) {
    for (const int64_t k : {1, 2, 5}) {
      check_op({cat(to_text(dims), " k ", k),
                TopKCorrect{k},
                {{dims, {}, Recipe::integer(-3, 3)},  // many ties
                 {{dims[0]}, DType::kI32, Recipe::integer(-1, dims[1] - 1)}}},
               top_k_reference);
    }
  }
}

TEST(TopKCorrect, NaNNeverCounts) {
  const Tensor x{{3, 2}, {kNaN, 0, 0, kNaN, kNaN, kNaN}};
  const RunResult got = run_node(TopKCorrect{1}, {x, {{3}, {0, 0, 1}}}, {DType::kF32, DType::kI32});
  EXPECT_EQ(decode(got.outputs[0], {DType::kF32, {}}).values[0], 1);  // only the middle row
}

}  // namespace
}  // namespace assay::test
