// Models that are no classifiers of images: tokens in, several outputs by name out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sdk/nn/classifier.h"
#include "sdk/nn/layers.h"
#include "sdk/train/predictor.h"
#include "tests/train/training_setup.h"

namespace assay::train {
namespace {

using test::error_of;
using testing::HasSubstr;

constexpr int64_t kRows = 4, kTokens = 3, kVocabulary = 7, kClasses = 5;

// A linear layer over the one-hot tokens of a sample. Evaluation also counts the tokens.
class TokenClassifier : public nn::Model {
 public:
  std::string architecture() const override { return "token_classifier"; }
  std::string config_json() const override { return "{}"; }
  std::vector<nn::InputSpec> inputs(nn::Mode mode) const override {
    std::vector<nn::InputSpec> inputs{{.name = "tokens",
                                       .dtype = DType::kI32,
                                       .sample = {kTokens},
                                       .range = nn::IndexRange{0, kVocabulary}}};
    if (mode != nn::Mode::kPredict) inputs.push_back(nn::label_input(kClasses, mode));
    return inputs;
  }
  nn::Outputs forward(nn::Builder& b) const override {
    Graph& g = b.graph();
    const ValueId tokens = b.input(inputs(b.mode())[0]);
    const int64_t n = b.batch() * kTokens;
    const ValueId ids = g.emit1(Reshape{{n}}, {tokens});
    // One-hot rows: every token mixed with nothing of its partner.
    const ValueId one_hot = g.emit1(MixTargets{kVocabulary, 0}, {ids, g.emit1(Fill{{n}, 1}, {})});
    const ValueId rows = g.emit1(Reshape{{b.batch(), kTokens * kVocabulary}}, {one_hot});
    const ValueId logits = nn::linear(b, "output", rows, kClasses);
    nn::Outputs outputs = nn::classifier_outputs(b, logits);
    if (b.mode() == nn::Mode::kEval)
      outputs.push_back({"tokens_seen", g.emit1(CountTargets{}, {tokens}), nn::Reduction::kSum});
    return outputs;
  }
};

std::shared_ptr<ModelInstance> new_token_instance() {
  return std::make_shared<ModelInstance>(std::make_shared<TokenClassifier>(),
                                         std::shared_ptr<Backend>(cpu::make_backend({})));
}

TrainerConfig token_config() {
  return test::config_of(R"({"optimizer": {"name": "sgd", "learning_rate": 0.5}, "seed": 3})",
                         kRows);
}

// The same numbers in both widths.
struct TokenBatch {
  std::vector<int32_t> tokens{0, 3, 6, 1, 1, 2, 5, 4, 3, 0, 0, 6}, labels{0, 4, 2, 1};
  std::vector<int64_t> wide_tokens{tokens.begin(), tokens.end()},
      wide_labels{labels.begin(), labels.end()};

  std::vector<HostTensor> narrow() const {
    return {{DType::kI32, {kRows, kTokens}, tokens.data()}, {DType::kI32, {kRows}, labels.data()}};
  }
  std::vector<HostTensor> wide() const {
    return {{DType::kI64, {kRows, kTokens}, wide_tokens.data()},
            {DType::kI64, {kRows}, wide_labels.data()}};
  }
};

TEST(TokenInputs, OfBothWidthsTrainEvaluateAndPredictAlike) {
  const TokenBatch batch;
  Trainer narrow(new_token_instance(), token_config()), wide(new_token_instance(), token_config());
  double first = 0, last = 0;
  for (int i = 0; i < 20; ++i) {
    const double loss = narrow.step(batch.narrow()).loss;
    wide.prefetch(batch.wide());
    EXPECT_EQ(wide.step({}).loss, loss);
    (i == 0 ? first : last) = loss;
  }
  EXPECT_LT(last, 0.5 * first);
  const EvalOutputs a = narrow.eval(batch.narrow());
  EXPECT_EQ(find_output(wide.eval(batch.wide()), "loss").value, find_output(a, "loss").value);
  const Predictor predictor(narrow.instance(), {});
  PredictorSlot slot(predictor);
  const auto logits = [&](const HostTensor& tokens) {
    const Program::Port& out = slot.run({&tokens, 1}).output("logits");
    const auto* values = static_cast<const float*>(out.data);
    return std::vector<float>(values, values + out.type.numel());
  };
  EXPECT_EQ(logits(batch.wide()[0]), logits(batch.narrow()[0]));
}

// Before any kernel reads them as indices; also what only 64 bits can hold.
TEST(TokenInputs, OutOfRangeAreRefused) {
  Trainer trainer(new_token_instance(), token_config());
  TokenBatch batch;
  batch.tokens[4] = 7;
  EXPECT_THAT(error_of([&] { trainer.step(batch.narrow()); }),
              HasSubstr("tokens[4] is 7, expected a number in [0, 7)"));
  EXPECT_THAT(error_of([&] { trainer.prefetch(batch.narrow()); }), HasSubstr("tokens[4]"));
  EXPECT_THAT(error_of([&] { trainer.eval(batch.narrow()); }), HasSubstr("tokens[4]"));
  batch.wide_tokens[1] = (int64_t{1} << 32) + 3;
  EXPECT_THAT(error_of([&] { trainer.step(batch.wide()); }), HasSubstr("tokens[1] is 4294967299"));
  batch.wide_tokens[1] = 3;
  batch.wide_labels[2] = -1;
  EXPECT_THAT(error_of([&] { trainer.step(batch.wide()); }),
              HasSubstr("label[2] is -1, expected a class in [0, 5)"));
  const Predictor predictor(trainer.instance(), {});
  PredictorSlot slot(predictor);
  const HostTensor tokens = batch.narrow()[0];
  EXPECT_THAT(error_of([&] { slot.run({&tokens, 1}); }), HasSubstr("tokens[4]"));
}

TEST(EvalOutputs, HaveNamesReductionsAndWeights) {
  Trainer trainer(new_token_instance(), token_config());
  TokenBatch batch;
  batch.labels[1] = batch.labels[3] = -1;  // padding
  const EvalOutputs outputs = trainer.eval(batch.narrow());
  std::vector<std::string_view> names;
  for (const EvalOutput& output : outputs) names.push_back(output.name);
  EXPECT_THAT(names, testing::ElementsAre("loss", "top1", "top5", "tokens_seen"));
  EXPECT_EQ(find_output(outputs, "loss").reduction, nn::Reduction::kMean);
  EXPECT_EQ(find_output(outputs, "loss").weight, 2);
  EXPECT_EQ(find_output(outputs, "top5").value, 2);
  EXPECT_EQ(find_output(outputs, "tokens_seen").reduction, nn::Reduction::kSum);
  EXPECT_EQ(find_output(outputs, "tokens_seen").value, kRows * kTokens);
  EXPECT_EQ(find_output(outputs, "tokens_seen").weight, 0);
  EXPECT_EQ(find_output(outputs, "perplexity").value, 0);
  EXPECT_EQ(trainer.scalar("loss.weight"), 2);
  EXPECT_THAT([&] { trainer.scalar("perplexity"); },
              testing::ThrowsMessage<Error>(HasSubstr("tokens_seen")));
}

// What a model has no use for is refused by name.
TEST(TrainingOptions, AreRefusedByModelsWithoutUseForThem) {
  for (const auto& [keys, message] :
       {std::pair{R"("label_smoothing": 0.1)", "label_smoothing is 0.1, expected 0 with token"},
        {R"("mixup_alpha": 0.2)", "token_classifier is no classifier of images"},
        {R"("raw_images": {})", "raw_images is for classifiers of images"}}) {
    const TrainerConfig config = test::config_of(
        cat(R"({"optimizer": {"name": "sgd", "learning_rate": 0.5}, )", keys, "}"), kRows);
    try {
      const Trainer trainer(new_token_instance(), config);
      ADD_FAILURE() << keys;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  }
}

}  // namespace
}  // namespace assay::train
