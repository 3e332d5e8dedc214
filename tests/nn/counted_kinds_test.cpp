// The kinds of layers that layer_kinds_test.cpp cannot put behind one linear layer: what reads
// integers, what counts, and what is another thing in training than elsewhere. One network of all
// of them, against naive f64.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/backend/cpu/device.h"
#include "sdk/nn/network.h"
#include "sdk/train/predictor.h"
#include "sdk/train/trainer.h"

namespace assay::nn {
namespace {

constexpr size_t kRows = 6, kWidth = 4, kWords = 2, kFeatures = 2;
constexpr double kEpsilon = 0.125, kMomentum = 0.25;
using Row = std::array<double, kWidth>;
using Rows = std::vector<Row>;

class CountedKinds : public testing::Test {
 protected:
  CountedKinds() {
    for (size_t i = 0; i < x_.size(); ++i) {
      x_[i] = static_cast<float>(static_cast<int>(i * 37 % 23) - 11) / 8;
      weigh_[i] = static_cast<float>(static_cast<int>(i * 29 % 17) - 6) / 8;
    }
    NetworkWriter w("counted");
    const auto layer = [&](std::string_view kind, std::string_view keys,
                           std::vector<NetworkValue> in) {
      return w.layer(kind, std::string(kind), keys, in);
    };
    const NetworkValue x = w.input("x", R"({"shape": [4]})");
    const NetworkValue words =
        w.input("words", R"({"dtype": "i32", "shape": [2], "range": [0, 3], "padding": -1})");
    const NetworkValue label =
        w.input("label", R"({"dtype": "i32", "label": true, "range": [0, 4]})");
    const NetworkValue weigh = w.input("weigh", R"({"label": true, "shape": [4]})");
    const NetworkValue h = layer("linear", R"({"features": 4})", {x});
    const NetworkValue norm = layer("batch_norm", R"({"epsilon": 0.125, "momentum": 0.25})", {h});
    const NetworkValue table =
        layer("embedding", R"({"rows": 3, "features": 2, "stddev": 1})", {words});
    const NetworkValue flat = layer("flatten", "", {table});
    const NetworkValue scores = layer("add", "", {norm, flat});
    const NetworkValue count = layer("count_targets", "", {label});
    w.output("loss", layer("softmax_cross_entropy", "", {scores, label}), count, "");
    w.output("mean", layer("mean", "", {layer("multiply", "", {scores, weigh})}), {}, "");
    w.output("top2", layer("top_k_correct", R"({"k": 2})", {scores, label}), count, "");
    w.output("counted", count, {}, R"({"reduction": "sum"})");
    w.output("probabilities", layer("probabilities", "", {scores}), {}, "");
    instance_ = std::make_shared<train::ModelInstance>(
        w.finish(), std::shared_ptr<Backend>(cpu::make_backend({.threads = 2})));
  }

  std::vector<train::HostTensor> batch(const std::vector<int32_t>* labels) const {
    std::vector<train::HostTensor> tensors{{DType::kF32, {6, 4}, x_.data()},
                                           {DType::kI32, {6, 2}, words_.data()}};
    if (labels == nullptr) return tensors;
    tensors.push_back({DType::kI32, {6}, labels->data()});
    tensors.push_back({DType::kF32, {6, 4}, weigh_.data()});
    return tensors;
  }
  std::vector<double> numbers(const std::string& name, Role role = Role::kValue) const {
    const SegmentTensor found = instance_->segments().tensor(name, role);
    const auto* data = static_cast<const float*>(found.data);
    return {data, data + found.variable->dims.numel()};
  }

  // ---- The reference ----

  Rows linear() const {
    const auto w = numbers("linear.weight"), b = numbers("linear.bias");
    Rows h(kRows);
    for (size_t n = 0; n < kRows; ++n)
      for (size_t k = 0; k < kWidth; ++k) {
        h[n][k] = b[k];
        for (size_t c = 0; c < kWidth; ++c) h[n][k] += x_[n * kWidth + c] * w[k * kWidth + c];
      }
    return h;
  }
  static Row mean_of(const Rows& h) {
    Row mean{};
    for (const Row& row : h)
      for (size_t c = 0; c < kWidth; ++c) mean[c] += row[c] / kRows;
    return mean;
  }
  static Row variance_of(const Rows& h, double divisor) {
    const Row mean = mean_of(h);
    Row variance{};
    for (const Row& row : h)
      for (size_t c = 0; c < kWidth; ++c) variance[c] += std::pow(row[c] - mean[c], 2) / divisor;
    return variance;
  }
  // Normalised by these, and the words' rows added.
  Rows scores(const Row& mean, const Row& variance) const {
    const auto gamma = numbers("batch_norm.weight"), beta = numbers("batch_norm.bias");
    const auto table = numbers("embedding.weight");
    Rows y = linear();
    for (size_t n = 0; n < kRows; ++n)
      for (size_t c = 0; c < kWidth; ++c) {
        y[n][c] = gamma[c] * (y[n][c] - mean[c]) / std::sqrt(variance[c] + kEpsilon) + beta[c];
        const int32_t word = words_[n * kWords + c / kFeatures];
        if (word >= 0) y[n][c] += table[static_cast<size_t>(word) * kFeatures + c % kFeatures];
      }
    return y;
  }
  static Row softmax(const Row& scores) {
    Row y{};
    double total = 0;
    for (const double score : scores) total += std::exp(score);
    for (size_t c = 0; c < kWidth; ++c) y[c] = std::exp(scores[c]) / total;
    return y;
  }
  // Summed over the labels that are none of padding.
  static double cross_entropy(const Rows& scores, const std::vector<int32_t>& labels) {
    double sum = 0;
    for (size_t n = 0; n < kRows; ++n)
      if (labels[n] >= 0) sum -= std::log(softmax(scores[n])[static_cast<size_t>(labels[n])]);
    return sum;
  }

  std::vector<float> x_ = std::vector<float>(kRows * kWidth), weigh_ = x_;
  const std::vector<int32_t> words_{0, 1, 2, -1, 1, 1, -1, -1, 2, 0, 0, 2};
  const std::vector<int32_t> labels_{0, 3, 1, 2, 2, 0}, padded_{0, 3, -1, 2, -1, 0};
  std::shared_ptr<train::ModelInstance> instance_;
};

TEST_F(CountedKinds, ValuesAreThoseOfTheReference) {
  train::TrainerConfig config;
  config.optimizer.name = "sgd";
  config.optimizer.learning_rate = 0.25;
  config.batch_size = kRows;
  config.seed = 4;
  train::Trainer trainer(instance_, config);

  // In training batch norm takes the batch's mean and variance.
  const Rows h = linear();
  const Rows trained = scores(mean_of(h), variance_of(h, kRows));
  EXPECT_NEAR(trainer.step(batch(&labels_)).loss, cross_entropy(trained, labels_) / kRows, 1e-5);

  // Elsewhere the running ones, of variances with the divisor n - 1.
  Row mean = mean_of(h), variance = variance_of(h, kRows - 1);
  for (size_t c = 0; c < kWidth; ++c) {
    mean[c] *= kMomentum;
    variance[c] = (1 - kMomentum) + kMomentum * variance[c];
    EXPECT_NEAR(numbers("batch_norm.running_mean", Role::kStatistic)[c], mean[c], 1e-6);
    EXPECT_NEAR(numbers("batch_norm.running_var", Role::kStatistic)[c], variance[c], 1e-6);
  }
  const Rows expected = scores(mean, variance);
  double sum_of_means = 0, right = 0, counted = 0;
  for (size_t n = 0; n < kRows; ++n) {
    for (size_t c = 0; c < kWidth; ++c)
      sum_of_means += expected[n][c] * weigh_[n * kWidth + c] / kWidth;
    if (padded_[n] < 0) continue;
    ++counted;
    const double own = expected[n][static_cast<size_t>(padded_[n])];
    right += std::ranges::count_if(expected[n], [&](double s) { return s > own; }) < 2;
  }
  EXPECT_EQ(counted, 4);
  EXPECT_TRUE(right > 0 && right < counted) << "otherwise any count would do";
  const train::EvalOutputs evaluated = trainer.eval(batch(&padded_));
  const auto of = [&](std::string_view name) { return find_output(evaluated, name); };
  EXPECT_NEAR(of("loss").value, cross_entropy(expected, padded_), 1e-4);
  EXPECT_EQ(of("loss").weight, counted);
  EXPECT_NEAR(of("mean").value, sum_of_means, 1e-5);
  EXPECT_EQ(of("mean").weight, kRows);
  EXPECT_EQ(of("top2").value, right);
  EXPECT_EQ(of("top2").weight, counted);
  EXPECT_EQ(of("counted").value, counted);

  const train::Predictor predictor(*instance_, {});
  train::PredictorSlot slot(predictor);
  const Program& program = slot.run(batch(nullptr));
  ASSERT_EQ(program.outputs().size(), 1u);
  const auto* shares = static_cast<const float*>(program.outputs()[0].data);
  for (size_t n = 0; n < kRows; ++n)
    for (size_t c = 0; c < kWidth; ++c)
      EXPECT_NEAR(shares[n * kWidth + c], softmax(expected[n])[c], 1e-5) << n << " " << c;
}

}  // namespace
}  // namespace assay::nn
