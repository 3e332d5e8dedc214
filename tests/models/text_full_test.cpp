// BERT-base and ELECTRA-base at their published size, vocabulary 30,522, against transformers in
// float64 (fixtures/models/make_text_full.py, which makes up the same weights and ids); what
// ELECTRA's weights and loss are before any training.
#include <algorithm>
#include <cmath>

#include "sdk/train/predictor.h"
#include "tests/models/made_up.h"
#include "tests/models/text_parity.h"

namespace assay::train {
namespace {

using namespace test;

constexpr int64_t kLength = 32, kBertSlots = 5;
constexpr size_t kTokens = 32 + 21;
// Four times PyTorch's own float32 error against the file (README of the fixtures).
constexpr double kVocabulary = 4 * 7e-7, kDiscriminator = 4 * 1.5e-6;

std::shared_ptr<ModelInstance> instance_of(const std::string& architecture,
                                           const std::string& config = "") {
  return std::make_shared<ModelInstance>(
      std::shared_ptr<nn::Model>(models::create_model(architecture, config)),
      std::shared_ptr<Backend>(make_backend_under_test(2)));
}

std::shared_ptr<ModelInstance> made_up_instance(const std::string& architecture,
                                                const std::string& config) {
  auto instance = instance_of(architecture, config);
  for (const Variable& variable : instance->variables().all()) {
    if (variable.role != Role::kValue) continue;
    const bool is_vector = variable.dims.rank() == 1;
    const double scale = is_vector ? 0.125 : std::sqrt(3.0 / static_cast<double>(variable.dims[1]));
    auto values = made_up(variable.name, variable.dims.numel(), static_cast<float>(scale));
    if (variable.name.ends_with("LayerNorm.weight"))
      for (float& value : values) value += 1;
    const SegmentTensor tensor = instance->segments().tensor(variable.name, Role::kValue);
    instance->backend()->write(tensor.data, values.data(), tensor.bytes());
  }
  instance->mark_initialized();
  return instance;
}

// Two sequences, the second shorter.
class TextFull : public testing::Test {
 protected:
  TextFull() {
    for (const float value : made_up("input.ids", 2 * kLength))
      ids_.push_back(static_cast<int32_t>((static_cast<double>(value) + 1) / 2 * 30522));
    for (size_t row = 0; row < 2; ++row) {
      ids_[kLength * row] = 101;
      ids_[kLength * row + static_cast<size_t>(lengths_[row]) - 1] = 102;
      std::fill_n(segments_.begin() + static_cast<int64_t>(kLength * row) + 10, kLength - 10, 1);
      for (int32_t slot = 0; slot < kBertSlots; ++slot) positions_.push_back(4 * slot + 1);
    }
  }
  std::vector<HostTensor> batch() const {
    return {{DType::kI32, {2, kLength}, ids_.data()},
            {DType::kI32, {2, kLength}, segments_.data()},
            {DType::kI32, {2}, lengths_.data()}};
  }
  void expect_output(const std::string& name, const std::vector<float>& got, double bound) const {
    double error = 0, largest = 0, squares = 0;
    for (const auto& [key, value] : expected_) {
      if (!key.starts_with(name + ".")) continue;
      const size_t place = std::stoull(key.substr(name.size() + 1));
      ASSERT_LT(place, got.size());
      error = std::max(error, std::abs(static_cast<double>(got[place]) - value));
      largest = std::max(largest, std::abs(value));
    }
    for (const float value : got) squares += static_cast<double>(value) * value;
    EXPECT_GT(largest, 0) << name;
    EXPECT_LT(error, bound * largest) << name;
    const double norm = expected_.at("norm." + name);
    EXPECT_NEAR(std::sqrt(squares), norm, bound * norm) << name;
  }

  std::vector<int32_t> ids_, segments_ = std::vector<int32_t>(2 * kLength, 0), lengths_{32, 21},
                             positions_;
  std::map<std::string, double> expected_ = results_of("text_full.tsv");
};

TEST_F(TextFull, BertPredictsAsTransformersDoes) {
  const auto instance = made_up_instance("bert_base", "");
  auto with_positions = batch();
  with_positions.push_back({DType::kI32, {2, kBertSlots}, positions_.data()});
  const Predictor predictor(*instance,
                            {.sequence_length = kLength, .prediction_slots = kBertSlots});
  PredictorSlot slot(predictor);
  Program& program = slot.run(with_positions);
  for (const char* name : {"masked_lm_logits", "next_sentence_logits"})
    expect_output(cat("bert.", name), read_output(program, name), kVocabulary);
}

TEST_F(TextFull, ElectraEvaluatesAndPredictsAsTransformersDoes) {
  const auto instance = made_up_instance("electra_base_pretraining", R"({"vocabulary": 30522})");
  {
    const Predictor predictor(*instance, {.sequence_length = kLength});
    PredictorSlot slot(predictor);
    auto found = read_output(slot.run(batch()), "discriminator_logits");
    found.resize(kTokens);  // without the padding, which comes last
    expect_output("electra.discriminator_logits", found, kDiscriminator);
  }
  Trainer trainer(instance, config_of(cat("{", kSgd, R"(, "sequence_length": 32, "seed": 7})"), 2));
  const EvalOutputs outputs = trainer.eval(batch());
  expect_output("electra.generator_logits", read_output(trainer.eval_program(), "generator_logits"),
                kVocabulary);
  const EvalOutput loss = find_output(outputs, "mlm_loss");
  EXPECT_NEAR(loss.value, expected_.at("norm.electra.mlm_loss"), kVocabulary * loss.value);
  EXPECT_EQ(loss.weight, 7);
}

// Drawn again beyond two standard deviations of 0.02, which leaves one of 0.0176. The sum of the
// losses is then about ln 30528 + 50 ln 2 = 44.98: all words, and both answers, are as likely. What
// the discriminator's last layer gives all tokens alike has a deviation of 0.14, its loss one of
// 0.05.
TEST(ElectraAtItsPublishedSize, BeginsWithTruncatedNormalsAndLossesOfGuesses) {
  const auto instance = instance_of("electra_base_pretraining");
  instance->ensure_initialized(1);
  for (const Variable& variable : instance->variables().all()) {
    if (variable.role != Role::kValue) continue;
    const SegmentTensor tensor = instance->segments().tensor(variable.name, Role::kValue);
    std::vector<float> values(tensor.bytes() / sizeof(float));
    instance->backend()->read(values.data(), tensor.data, tensor.bytes());
    if (variable.dims.rank() == 1) {
      const float expected = variable.name.ends_with("LayerNorm.weight") ? 1 : 0;
      EXPECT_EQ(std::ranges::count(values, expected), std::ssize(values)) << variable.name;
      continue;
    }
    double sum = 0, squares = 0, largest = 0;
    for (const float each : values) {
      const auto value = static_cast<double>(each);
      sum += value, squares += value * value, largest = std::max(largest, std::abs(value));
    }
    const auto n = static_cast<double>(values.size());
    constexpr double kDeviation = 0.0175925;
    EXPECT_LE(largest, 0.04f) << variable.name;
    // Five standard errors.
    EXPECT_NEAR(sum / n, 0, 5 * kDeviation / std::sqrt(n)) << variable.name;
    EXPECT_NEAR(std::sqrt(squares / n), kDeviation, 5 * kDeviation / std::sqrt(2 * n))
        << variable.name;
  }
  std::vector<int32_t> ids(4 * 64), segments(4 * 64, 0), lengths(4, 64);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(1000 + 7919 * i % 29000);
  Trainer trainer(instance, config_of(cat("{", kSgd, R"(, "sequence_length": 64})"), 4));
  const EvalOutputs outputs =
      trainer.eval(std::vector<HostTensor>{{DType::kI32, {4, 64}, ids.data()},
                                           {DType::kI32, {4, 64}, segments.data()},
                                           {DType::kI32, {4}, lengths.data()}});
  const auto mean = [&](const char* name) {
    const EvalOutput output = find_output(outputs, name);
    return output.value / output.weight;
  };
  EXPECT_NEAR(mean("mlm_loss"), std::log(30528), 0.3);
  EXPECT_NEAR(mean("rtd_loss"), std::log(2), 0.1);
  EXPECT_NEAR(mean("loss"), 44.98, 5);
}

}  // namespace
}  // namespace assay::train
