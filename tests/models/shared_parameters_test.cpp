// Networks that use a parameter in several places, on every backend: gradients against central
// differences of an f64 reference, under amp and with accumulation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <sstream>

#include "sdk/graph/elementwise.h"
#include "sdk/nn/classifier.h"
#include "sdk/nn/layers.h"
#include "sdk/train/trainer.h"
#include "sdk/train/trainer_config.h"
#include "tests/harness/backend_under_test.h"
#include "tests/harness/fixture.h"

namespace assay::train {
namespace {

using test::make_backend_under_test;
using test::relative_error;

constexpr int64_t kBatch = 5, kVocabulary = 8, kWidth = 6;

// A table that is read on the way in (rows weighted by x) and, transposed, on the way out, and one
// projection that two towers use:
//   h = x W;  twice: h = tanh(h P^T + p);  logits = h W^T
class Tied : public nn::Model {
 public:
  std::string architecture() const override { return "tied"; }
  std::string config_json() const override { return "{}"; }
  std::vector<nn::InputSpec> inputs(nn::Mode mode) const override {
    return {{.name = "x", .sample = {kVocabulary}}, nn::label_input(kVocabulary, mode)};
  }
  nn::Outputs forward(nn::Builder& b) const override {
    ValueId h = b.graph().emit1(Matmul{}, {b.input(inputs(b.mode())[0]), table(b)});
    for (const char* tower : {"first", "second"}) {
      const auto scope = b.scope(tower);
      const auto projection = b.shared("projection");
      h = nn::activation(b, ActivationKind::kTanh, nn::linear(b, "dense", h, kWidth));
    }
    const ValueId logits = b.graph().emit1(Matmul{.transpose_b = true}, {h, table(b)});
    return nn::classifier_outputs(b, logits);
  }

 private:
  static ValueId table(nn::Builder& b) {
    const auto scope = b.shared("embeddings");
    return b.parameter("word", {kVocabulary, kWidth}, {Initializer::Kind::kNormal, 0.5});
  }
};

struct Batch {
  std::vector<float> x = std::vector<float>(kBatch * kVocabulary);
  std::vector<int32_t> label = std::vector<int32_t>(kBatch);
  explicit Batch(int seed) {
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<float>((static_cast<int>(i) * 7 + seed * 5) % 13 - 6) / 8;
    for (size_t i = 0; i < label.size(); ++i)
      label[i] = (static_cast<int32_t>(i) * 3 + seed) % kVocabulary;
  }
  std::vector<HostTensor> tensors() const {
    return {{DType::kF32, {kBatch, kVocabulary}, x.data()}, {DType::kI32, {kBatch}, label.data()}};
  }
};

using Numbers = std::vector<double>;

// [n,k] x [k,m], or x [m,k] transposed
Numbers product(const Numbers& a, const Numbers& b, int64_t k, int64_t m, bool transpose) {
  const auto n = static_cast<int64_t>(a.size()) / k;
  Numbers y(static_cast<size_t>(n * m), 0);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < m; ++j)
      for (int64_t l = 0; l < k; ++l)
        y[static_cast<size_t>(i * m + j)] +=
            a[static_cast<size_t>(i * k + l)] *
            b[static_cast<size_t>(transpose ? j * k + l : l * m + j)];
  return y;
}

// The mean cross-entropy of a batch.
double reference_loss(const Batch& batch, const Numbers& word, const Numbers& weight,
                      const Numbers& bias) {
  Numbers h = product({batch.x.begin(), batch.x.end()}, word, kVocabulary, kWidth, false);
  for (int tower = 0; tower < 2; ++tower) {
    h = product(h, weight, kWidth, kWidth, true);
    for (size_t i = 0; i < h.size(); ++i) h[i] = std::tanh(h[i] + bias[i % kWidth]);
  }
  const Numbers logits = product(h, word, kWidth, kVocabulary, true);
  double loss = 0;
  for (int64_t n = 0; n < kBatch; ++n) {
    double sum = 0;
    for (int64_t c = 0; c < kVocabulary; ++c)
      sum += std::exp(logits[static_cast<size_t>(n * kVocabulary + c)]);
    loss += std::log(sum) -
            logits[static_cast<size_t>(n * kVocabulary + batch.label[static_cast<size_t>(n)])];
  }
  return loss / kBatch;
}

std::vector<float> read(const Trainer& trainer, const std::string& name, Role role) {
  const SegmentTensor tensor = trainer.instance().segments().tensor(name, role);
  std::vector<float> values(tensor.bytes() / sizeof(float));
  trainer.instance().backend()->read(values.data(), tensor.data, tensor.bytes());
  return values;
}

constexpr const char* kNames[] = {"embeddings.word", "projection.dense.weight",
                                  "projection.dense.bias"};

// The sum over the batches of dloss/d(variable), by central differences.
std::vector<float> reference_gradient(const Trainer& trainer, int variable, int batches) {
  std::array<Numbers, 3> values;
  for (int i = 0; i < 3; ++i) {
    const auto floats = read(trainer, kNames[i], Role::kValue);
    values[static_cast<size_t>(i)] = Numbers(floats.begin(), floats.end());
  }
  Numbers& moved = values[static_cast<size_t>(variable)];
  std::vector<float> gradient;
  constexpr double kStep = 1e-5;
  for (double& value : moved) {
    double difference = 0;
    for (int batch = 0; batch < batches; ++batch) {
      const double at = value;
      value = at + kStep;
      difference += reference_loss(Batch(batch), values[0], values[1], values[2]);
      value = at - kStep;
      difference -= reference_loss(Batch(batch), values[0], values[1], values[2]);
      value = at;
    }
    gradient.push_back(static_cast<float>(difference / (2 * kStep)));
  }
  return gradient;
}

struct Mode {
  std::string precision;
  int64_t accumulate;
  double bound;  // of a tensor's largest element: bf16 rounds to 2^-8, a few times
};

std::unique_ptr<Trainer> make_trainer(const Mode& mode) {
  TrainerConfig config;
  config.batch_size = kBatch;
  config.precision = mode.precision;
  config.accumulate = mode.accumulate;
  config.optimizer.name = "sgd";
  config.optimizer.learning_rate = 0.5;
  return std::make_unique<Trainer>(
      std::make_shared<ModelInstance>(std::make_shared<Tied>(), make_backend_under_test(2)),
      config);
}

TEST(SharedParameters, TheirGradientIsTheSumOverAllUses) {
  for (const Mode& mode : {Mode{"fp32", 1, 2e-5}, Mode{"fp32", 2, 2e-5}, Mode{"amp-bf16", 1, 0.03},
                           Mode{"amp-bf16", 2, 0.03}}) {
    const auto trainer = make_trainer(mode);
    const double loss = trainer->backward(Batch(0).tensors()).loss;
    for (int i = 1; i < mode.accumulate; ++i) trainer->backward(Batch(i).tensors());
    for (int i = 0; i < 3; ++i) {
      const auto expected = reference_gradient(*trainer, i, static_cast<int>(mode.accumulate));
      EXPECT_LT(relative_error(read(*trainer, kNames[i], Role::kGradient), expected), mode.bound)
          << kNames[i] << ", " << mode.precision << ", accumulate " << mode.accumulate;
    }
    const std::vector<float> before = read(*trainer, kNames[0], Role::kValue);
    const std::vector<float> gradient = read(*trainer, kNames[0], Role::kGradient);
    trainer->apply();
    const std::vector<float> after = read(*trainer, kNames[0], Role::kValue);
    for (size_t i = 0; i < before.size(); ++i)
      EXPECT_NEAR(after[i], before[i] - 0.5f * gradient[i] / static_cast<float>(mode.accumulate),
                  1e-6);
    EXPECT_GT(loss, 0);
  }
}

TEST(SharedParameters, LearnLikeOthers) {
  const auto trainer = make_trainer({"fp32", 1, 0});
  const double first = trainer->step(Batch(0).tensors()).loss;
  double last = first;
  for (int i = 0; i < 100; ++i) last = trainer->step(Batch(0).tensors()).loss;
  EXPECT_LT(last, 0.3 * first);
  EXPECT_EQ(trainer->instance().variables().parameter_count(),
            kVocabulary * kWidth + kWidth * kWidth + kWidth);
}

// The tied table and the projection are cast once each, and no sum of gradients is rounded.
TEST(SharedParameters, AreCastOnceAndSummedInF32) {
  const auto trainer = make_trainer({"amp-bf16", 1, 0});
  const Graph& graph = trainer->step_program().graph();
  int64_t casts = 0;
  for (const Node& node : graph.nodes()) {
    if (std::holds_alternative<Matmul>(node.op)) {
      EXPECT_NE(node.phase, Phase::kUpdate);
    }
    if (is_cast(node.op) || std::holds_alternative<Casts>(node.op)) {
      casts += std::ranges::count_if(node.inputs, [&](ValueId x) {
        return std::holds_alternative<Parameter>(graph.producer(x).op) &&
               graph.type(x).dims.rank() == 2;  // no bias
      });
    }
    if (is_add(node.op)) {
      EXPECT_EQ(graph.type(node.outputs[0]).dtype, DType::kF32);
    }
  }
  EXPECT_EQ(casts, 2);
}

// Scopes and operands' forms of all products, in the order in which they run.
std::vector<std::string> products(Trainer& trainer) {
  std::vector<std::string> texts;
  for (const Node& node : trainer.step_program().graph().nodes()) {
    const auto* matmul = std::get_if<Matmul>(&node.op);
    if (matmul != nullptr)
      texts.push_back(cat(node.scope, " ", matmul->transpose_a, matmul->transpose_b));
  }
  return texts;
}

// What a pass puts in the place of a product does not wait for the end of the step.
TEST(SharedParameters, ProductsKeepTheirOrderUnderAmp) {
  EXPECT_EQ(products(*make_trainer({"amp-bf16", 1, 0})), products(*make_trainer({"fp32", 1, 0})));
}

// A word table: rows of it are the input, its transpose is the product at the end. Words appear
// several times in a batch, and most not at all.
class TiedEmbedding : public nn::Model {
 public:
  static constexpr int64_t kTokens = 3, kWords = 40;
  std::string architecture() const override { return "tied_embedding"; }
  std::string config_json() const override { return "{}"; }
  std::vector<nn::InputSpec> inputs(nn::Mode mode) const override {
    return {{.name = "ids",
             .dtype = DType::kI32,
             .sample = {kTokens},
             .range = nn::IndexRange{0, kWords}},
            nn::label_input(kWords, mode)};
  }
  nn::Outputs forward(nn::Builder& b) const override {
    Graph& g = b.graph();
    const ValueId ids = b.input(inputs(b.mode())[0]);
    const ValueId word = b.parameter("word", {kWords, kWidth}, {Initializer::Kind::kNormal, 0.5});
    const ValueId flat = g.emit1(Reshape{{b.batch() * kTokens}}, {ids});
    const ValueId rows = g.emit1(GatherRows{}, {word, flat});
    const ValueId x = g.emit1(Reshape{{b.batch(), kTokens * kWidth}}, {rows});
    const ValueId h = nn::activation(b, ActivationKind::kTanh, nn::linear(b, "dense", x, kWidth));
    return nn::classifier_outputs(b, g.emit1(Matmul{.transpose_b = true}, {h, word}));
  }
};

// The mean cross-entropy of what TiedEmbedding makes of the ids.
double tied_loss(const std::vector<int32_t>& ids, const std::vector<int32_t>& labels,
                 const Numbers& word, const Numbers& weight, const Numbers& bias) {
  constexpr int64_t kIn = TiedEmbedding::kTokens * kWidth, kWords = TiedEmbedding::kWords;
  Numbers x;
  for (const int32_t id : ids)
    x.insert(x.end(), word.begin() + id * kWidth, word.begin() + (id + 1) * kWidth);
  Numbers h = product(x, weight, kIn, kWidth, true);
  for (size_t i = 0; i < h.size(); ++i) h[i] = std::tanh(h[i] + bias[i % kWidth]);
  const Numbers logits = product(h, word, kWidth, kWords, true);
  double loss = 0;
  for (size_t n = 0; n < labels.size(); ++n) {
    double sum = 0;
    for (size_t c = 0; c < kWords; ++c) sum += std::exp(logits[n * kWords + c]);
    loss += std::log(sum) - logits[n * kWords + static_cast<size_t>(labels[n])];
  }
  return loss / static_cast<double>(labels.size());
}

TEST(SharedParameters, RowsOfATableAndAProductWithItHaveOneGradient) {
  const std::vector<int32_t> ids{1, 7, 7, 39, 1, 0, 7, 2, 3, 0, 0, 0, 5, 38, 7};
  const std::vector<int32_t> labels{7, 0, 39, 12, 1};
  const std::vector<HostTensor> batch{{DType::kI32, {kBatch, TiedEmbedding::kTokens}, ids.data()},
                                      {DType::kI32, {kBatch}, labels.data()}};
  for (const Mode& mode : {Mode{"fp32", 1, 2e-5}, Mode{"amp-bf16", 1, 0.03}}) {
    TrainerConfig config;
    config.batch_size = kBatch;
    config.precision = mode.precision;
    config.optimizer.name = "sgd";
    config.optimizer.learning_rate = 0.5;
    Trainer trainer(std::make_shared<ModelInstance>(std::make_shared<TiedEmbedding>(),
                                                    make_backend_under_test(2)),
                    config);
    trainer.backward(batch);
    const auto numbers = [&](const char* name) {
      const auto values = read(trainer, name, Role::kValue);
      return Numbers(values.begin(), values.end());
    };
    Numbers word = numbers("word");
    const Numbers weight = numbers("dense.weight"), bias = numbers("dense.bias");
    std::vector<float> expected;
    constexpr double kStep = 1e-5;
    for (double& value : word) {
      const double at = value;
      value = at + kStep;
      const double above = tied_loss(ids, labels, word, weight, bias);
      value = at - kStep;
      expected.push_back(
          static_cast<float>((above - tied_loss(ids, labels, word, weight, bias)) / (2 * kStep)));
      value = at;
    }
    EXPECT_LT(relative_error(read(trainer, "word", Role::kGradient), expected), mode.bound)
        << mode.precision;

    // The product's gradient is written where the optimizer reads it, and rows are added there.
    const Program& step = trainer.step_program();
    int sums = 0;
    for (size_t i = 0; i < step.graph().nodes().size(); ++i) {
      const Node& node = step.graph().nodes()[i];
      EXPECT_FALSE(is_add(node.op));
      const auto* rows = std::get_if<GatherRowsGrad>(&node.op);
      if (rows == nullptr) continue;
      EXPECT_TRUE(rows->has_addend);
      ++sums;
    }
    EXPECT_EQ(sums, 1);
    std::istringstream lines(step.plan_text());
    for (std::string line; std::getline(lines, line);)
      if (line.find(cat("f32[", TiedEmbedding::kWords, ",", kWidth, "]")) != std::string::npos) {
        EXPECT_EQ(line.find(" @"), std::string::npos) << line;
      }
  }
}

// One normalisation for two towers: its averages move once for each, in order.
class SharedNorm : public nn::Model {
 public:
  std::string architecture() const override { return "shared_norm"; }
  std::string config_json() const override { return "{}"; }
  std::vector<nn::InputSpec> inputs(nn::Mode mode) const override {
    return {{.name = "x", .sample = {kVocabulary}}, nn::label_input(kVocabulary, mode)};
  }
  nn::Outputs forward(nn::Builder& b) const override {
    ValueId x = b.input(inputs(b.mode())[0]);
    for (int i = 0; i < 2; ++i) {
      const auto scope = b.shared("tower");
      x = nn::batch_norm(b, "norm", x, {.momentum = 0.5f});
    }
    return nn::classifier_outputs(b, x);
  }
};

TEST(SharedParameters, ASharedNormMovesItsAveragesForEachUse) {
  TrainerConfig config;
  config.batch_size = kBatch;
  config.optimizer.name = "sgd";
  config.optimizer.learning_rate = 0.1;
  Trainer trainer(
      std::make_shared<ModelInstance>(std::make_shared<SharedNorm>(), make_backend_under_test(1)),
      config);
  const Batch batch(0);
  trainer.step(batch.tensors());
  const std::vector<float> mean = read(trainer, "tower.norm.running_mean", Role::kStatistic);
  for (int64_t c = 0; c < kVocabulary; ++c) {
    double first = 0;
    for (int64_t n = 0; n < kBatch; ++n)
      first += static_cast<double>(batch.x[static_cast<size_t>(n * kVocabulary + c)]) / kBatch;
    // From 0 half way to the mean of x, then half way to that of normalised values, 0.
    EXPECT_NEAR(mean[static_cast<size_t>(c)], 0.25 * first, 1e-6) << c;
  }
}

TEST(SharedParameters, TowersDrawMasksOfTheirOwn) {
  Graph graph;
  VariableTable variables;
  nn::Builder b(graph, nn::Mode::kTrain, 4, variables, 0);
  ValueId x = b.input({.name = "x", .sample = {6}});
  std::vector<uint64_t> streams;
  for (int i = 0; i < 2; ++i) {
    const auto scope = b.shared("tower");
    x = nn::dropout(b, "dropout", x, 0.5f);
    streams.push_back(std::get<Dropout>(graph.producer(x).op).stream);
  }
  EXPECT_NE(streams[0], streams[1]);
}

std::string error_of(const std::function<void(nn::Builder&)>& body) {
  Graph graph;
  VariableTable variables;
  nn::Builder b(graph, nn::Mode::kTrain, 4, variables, 0);
  try {
    body(b);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalid);
    return error.what();
  }
  return "";
}

TEST(SharedParameters, ANameTwiceIsAnErrorUnlessSaid) {
  const nn::InputSpec x{.name = "x", .sample = {6}};
  EXPECT_EQ(error_of([&](nn::Builder& b) {
              const auto scope = b.scope("tower");
              nn::linear(b, "dense", nn::linear(b, "dense", b.input(x), 6), 6);
            }),
            "tower.dense.weight is made twice in one network; give the second layer a name of its "
            "own, or open Builder::shared(\"tower.dense\") around both if they are to be one");
  EXPECT_THAT(error_of([&](nn::Builder& b) {
                nn::dropout(b, "drop", nn::dropout(b, "drop", b.input(x), 0.5f), 0.5f);
              }),
              testing::HasSubstr("drop is made twice"));
  EXPECT_THAT(error_of([&](nn::Builder& b) {
                const auto scope = b.shared("tower");
                b.parameter("w", {3}, nn::constant(0));
                b.parameter("w", {3}, nn::constant(1));
              }),
              testing::HasSubstr("tower.w is declared twice, as value f32[3], kernel, initially "
                                 "constant(0) and as value f32[3], kernel, initially constant(1)"));
  EXPECT_THAT(error_of([&](nn::Builder& b) {
                const auto scope = b.shared("tower");
                b.parameter("w", {3}, nn::constant(0));
                b.parameter("w", {4}, nn::constant(0));
              }),
              testing::HasSubstr("f32[4]"));
}

}  // namespace
}  // namespace assay::train
