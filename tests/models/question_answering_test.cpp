// Heads that answer questions, BERT's and ELECTRA's joint one, against an independent
// implementation (tests/fixtures/models: transformers and PyTorch in float64): scores, losses,
// every gradient, three steps of AdamW, candidates of beams; names and shapes at the published
// size.
#include <gmock/gmock.h>

#include "models/answer_spans.h"
#include "sdk/train/predictor.h"
#include "tests/models/text_parity.h"

namespace assay::train {
namespace {

using namespace test;

// PyTorch's own gradients in bfloat16 differ by up to 4.4e-2 of a tensor's largest element, with
// layer norms and residuals in float32, which are bf16 here.
constexpr double kBf16Gradients = 2.5 * 4.4e-2;

std::string tiny(int64_t positions, const std::string& more) {
  return cat(R"({"vocabulary": 40, "hidden": 16, "layers": 2, "heads": 2, "inner": 32,
                 "dropout": 0, "attention_dropout": 0, "positions": )",
             positions, more, "}");
}

// Scores [rows, length] of the positions that may be an answer; the others are forbidden.
void expect_scores(const std::vector<float>& got, const std::vector<float>& expected,
                   const std::vector<bool>& allowed) {
  ASSERT_EQ(got.size(), allowed.size());
  std::vector<float> got_allowed, expected_allowed;
  for (size_t i = 0; i < got.size(); ++i) {
    if (allowed[i]) {
      got_allowed.push_back(got[i]), expected_allowed.push_back(expected[i]);
    } else {
      EXPECT_EQ(got[i], models::kForbidden) << i;
    }
  }
  EXPECT_LT(relative_error(got_allowed, expected_allowed), kOutputs);
}

void expect_eval(const EvalOutputs& outputs, const char* name, double value, double weight) {
  const EvalOutput output = find_output(outputs, name);
  EXPECT_NEAR(output.value, value, kOutputs * std::abs(value)) << name;
  EXPECT_EQ(output.weight, weight) << name;
}

// ---- BERT ----

class BertSpan : public testing::Test {
 protected:
  static std::string config(const std::string& optimizer, const std::string& more = "") {
    return cat("{", optimizer, R"(, "sequence_length": 10)", more, "}");
  }
  // Of positions before the end of their sequence.
  std::vector<bool> real() const {
    std::vector<bool> allowed;
    for (const int32_t length : fixture.at("input.lengths").i32)
      for (int32_t i = 0; i < 10; ++i) allowed.push_back(i < length);
    return allowed;
  }
  Fixture fixture{"models/bert_span_tiny"};
  Loaded loaded() const { return {"bert_base", tiny(12, R"(, "head": "span")"), fixture}; }
  std::vector<HostTensor> batch = batch_of(fixture, {"ids", "segments", "lengths", "start", "end"});
};

TEST_F(BertSpan, LossAndEveryGradient) {
  const Loaded model = loaded();
  Trainer trainer(model.instance, config_of(config(kSgd), 3));
  const StepInfo info = trainer.backward(batch);
  EXPECT_NEAR(info.loss, fixture.at("real.loss").f32[0], kOutputs * info.loss);
  expect_gradients(model, fixture, kGradients, "real.grad.");
}

TEST_F(BertSpan, ScoresOfTokensAndNoneOfPadding) {
  const Loaded model = loaded();
  const Predictor predictor(*model.instance, {.sequence_length = 10});
  PredictorSlot slot(predictor);
  Program& program = slot.run(std::vector<HostTensor>(batch.begin(), batch.begin() + 3));
  for (const char* name : {"start_logits", "end_logits"})
    expect_scores(read_output(program, name), fixture.at(name).f32, real());
}

// The padding of a batch changes nothing: here twelve tokens instead of ten.
TEST_F(BertSpan, LossDoesNotDependOnPadding) {
  std::vector<int32_t> ids, segments;
  for (int64_t n = 0; n < 3; ++n) {
    for (auto [to, name] : {std::pair{&ids, "input.ids"}, std::pair{&segments, "input.segments"}}) {
      const auto& from = fixture.at(name).i32;
      to->insert(to->end(), from.begin() + n * 10, from.begin() + (n + 1) * 10);
      to->insert(to->end(), {1, 1});
    }
  }
  batch[0] = {DType::kI32, {3, 12}, ids.data()};
  batch[1] = {DType::kI32, {3, 12}, segments.data()};
  const Loaded model = loaded();
  Trainer trainer(model.instance, config_of(cat("{", kSgd, R"(, "sequence_length": 12})"), 3));
  const StepInfo info = trainer.backward(batch);
  EXPECT_NEAR(info.loss, fixture.at("real.loss").f32[0], kOutputs * info.loss);
  expect_gradients(model, fixture, kGradients, "real.grad.");
}

TEST_F(BertSpan, EvaluationLeavesOutUnknownAnswers) {
  const Loaded model = loaded();
  Trainer trainer(model.instance, config_of(config(kSgd), 3));
  expect_eval(trainer.eval(batch), "loss", 3 * fixture.at("real.loss").f32[0], 3);
  const std::vector<int32_t> unknown{-1, -1, -1};
  batch[3].data = batch[4].data = unknown.data();
  expect_eval(trainer.eval(batch), "loss", 0, 0);
}

TEST_F(BertSpan, ThreeStepsOfAdamWWithoutBiasCorrection) {
  const Loaded model = loaded();
  Trainer trainer(model.instance, config_of(config(R"("optimizer": {"name": "adamw",
      "learning_rate": 1, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-6, "bias_correction": false,
      "clip_norm": 1, "weight_decay": 0.01,
      "group": [{"kind": ["bias", "layer_norm"], "weight_decay": 0}]})"),
                                            3));
  expect_steps(model, trainer, batch, Fixture("models/bert_span_tiny.adamw"),
               {{"key.bias", "qa_outputs.bias", "layer.1.output.LayerNorm.bias"}, 4 * 4.3e-4});
}

TEST_F(BertSpan, InBf16) {
  const Loaded model = loaded();
  Trainer trainer(model.instance, config_of(config(kSgd, R"(, "precision": "amp-bf16")"), 3));
  const StepInfo info = trainer.backward(batch);
  EXPECT_NEAR(info.loss, fixture.at("real.loss").f32[0], 0x1p-8 * info.loss);
  expect_gradients(model, fixture, kBf16Gradients, "real.grad.");
}

// ---- ELECTRA ----

constexpr const char* kVersion2 = R"(, "version": "2.0")";

struct ElectraQa : testing::Test {
  Fixture fixture{"models/electra_qa_tiny"};
  std::vector<HostTensor> batch =
      batch_of(fixture, {"ids", "segments", "lengths", "start", "end", "impossible"});

  Loaded loaded(const std::string& more) const {
    const bool answerable = more.find("2.0") != std::string::npos;
    const auto without = answerable ? std::nullopt : std::optional<std::string>("answer_class.");
    return {"electra_base_qa", tiny(14, more), fixture, 2, without};
  }
  static std::string config(const std::string& optimizer, const std::string& more = "") {
    return cat("{", optimizer, R"(, "sequence_length": 14)", more, "}");
  }
  std::vector<bool> allowed() const {
    std::vector<bool> allowed;
    for (const int32_t forbidden : fixture.at("input.forbidden").i32)
      allowed.push_back(forbidden == 0);
    return allowed;
  }
  float number(const std::string& name) const { return fixture.at(name).f32[0]; }
};

TEST_F(ElectraQa, LossAndEveryGradientOfVersion1) {
  const Loaded model = loaded("");
  Trainer trainer(model.instance, config_of(config(kSgd), 3));
  batch.pop_back();
  const StepInfo info = trainer.backward(batch);
  EXPECT_NEAR(info.loss, number("v1.loss"), kOutputs * info.loss);
  expect_gradients(model, fixture, kGradients, "v1.grad.");
}

TEST_F(ElectraQa, LossesAndEveryGradientOfVersion2) {
  for (const char* more : {"", R"(, "packed": true)"}) {
    SCOPED_TRACE(more);
    const Loaded model = loaded(kVersion2);
    Trainer trainer(model.instance, config_of(config(kSgd, more), 3));
    const StepInfo info = trainer.backward(batch);
    EXPECT_NEAR(info.loss, number("v2.loss"), kOutputs * info.loss);
    EXPECT_NEAR(trainer.scalar("span_loss"), number("v1.loss"), kOutputs * info.loss);
    expect_gradients(model, fixture, kGradients, "v2.grad.");
  }
}

TEST_F(ElectraQa, EvaluationScoresFromTheGoldStart) {
  const Loaded model = loaded(kVersion2);
  Trainer trainer(model.instance, config_of(config(kSgd), 3));
  const EvalOutputs outputs = trainer.eval(batch);
  expect_eval(outputs, "loss", 3 * number("v2.loss"), 3);
  expect_eval(outputs, "span_loss", 3 * number("v1.loss"), 3);
  Program& program = trainer.eval_program();
  expect_scores(read_output(program, "start_logits"), fixture.at("train.start_scores").f32,
                allowed());
  expect_scores(read_output(program, "end_logits"), fixture.at("train.end_scores").f32, allowed());
  EXPECT_LT(
      relative_error(read_output(program, "class_logit"), fixture.at("train.class_logit").f32),
      kOutputs);
  const std::vector<int32_t> unknown{-1, -1, -1};
  for (size_t i = 3; i < 6; ++i) batch[i].data = unknown.data();
  expect_eval(trainer.eval(batch), "loss", 0, 0);
}

std::vector<int32_t> read_integers(Program& program, const std::string& name) {
  const Program::Port& port = program.output(name);
  std::vector<int32_t> values(static_cast<size_t>(port.type.numel()));
  program.backend().read(values.data(), port.data, port.type.bytes());
  return values;
}

TEST_F(ElectraQa, CandidatesOfBeams) {
  for (const int64_t beam : {4, 5}) {
    const std::string of = cat("beam", beam, ".");
    const Loaded model = loaded(cat(kVersion2, R"(, "beam": )", beam));
    const Predictor predictor(*model.instance, {.sequence_length = 14});
    PredictorSlot slot(predictor);
    Program& program = slot.run(std::vector<HostTensor>(batch.begin(), batch.begin() + 3));
    for (const char* name : {"start_index", "end_index"})
      EXPECT_EQ(read_integers(program, name), fixture.at(of + name).i32) << of << name;
    for (const char* name : {"start_log_prob", "end_log_prob", "class_logit"})
      EXPECT_LT(relative_error(read_output(program, name), fixture.at(of + name).f32), kOutputs)
          << of << name;
  }
}

TEST_F(ElectraQa, VersionOneHasNoClassLogitAndShortSequencesFewerCandidates) {
  const Loaded model = loaded("");
  const Predictor predictor(*model.instance, {.sequence_length = 3});
  PredictorSlot slot(predictor);
  const std::vector<int32_t> ids{1, 7, 2}, types{0, 0, 0}, length{3};
  Program& program = slot.run(std::vector<HostTensor>{{DType::kI32, {1, 3}, ids.data()},
                                                      {DType::kI32, {1, 3}, types.data()},
                                                      {DType::kI32, {1}, length.data()}});
  EXPECT_EQ(program.output("start_index").type.dims, (Dims{1, 3}));
  EXPECT_EQ(program.output("end_index").type.dims, (Dims{1, 9}));
  EXPECT_THROW(program.output("class_logit"), Error);
  // Only [CLS] is allowed, with all of the probability.
  EXPECT_EQ(read_integers(program, "start_index")[0], 0);
  EXPECT_EQ(read_output(program, "start_log_prob")[0], 0);
}

// The published fine-tuning: the rate falls with the distance from the heads, by name.
TEST_F(ElectraQa, ThreeStepsOfAdamWByLayer) {
  const Loaded model = loaded(kVersion2);
  Trainer trainer(model.instance,
                  config_of(config(R"("optimizer": {"name": "adamw", "learning_rate": 1,
      "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-6, "epsilon_form": "tensorflow", "clip_norm": 1,
      "weight_decay": 0.01,
      "group": [{"match": ["electra.embeddings.*"], "lr_scale": 0.4096},
                {"match": ["electra.encoder.layer.0.*"], "lr_scale": 0.512},
                {"match": ["electra.encoder.layer.1.*"], "lr_scale": 0.64},
                {"kind": ["bias", "layer_norm"], "weight_decay": 0}]})"),
                            3));
  expect_steps(model, trainer, batch, Fixture("models/electra_qa_tiny.adamw"),
               {{"start_logit_pooler_dense.bias", "end_logit_pooler_LayerNorm.bias",
                 "end_logit_pooler_dense_1.bias", "key.bias"},
                4 * 6.5e-5});
}

TEST_F(ElectraQa, InBf16) {
  const Loaded model = loaded(kVersion2);
  Trainer trainer(model.instance, config_of(config(kSgd, R"(, "precision": "amp-bf16")"), 3));
  const StepInfo info = trainer.backward(batch);
  EXPECT_NEAR(info.loss, number("v2.loss"), 0x1p-8 * info.loss);
  expect_gradients(model, fixture, kBf16Gradients, "v2.grad.");
  const Predictor predictor(*model.instance,
                            {.precision = Precision::kAmpBf16, .sequence_length = 14});
  PredictorSlot slot(predictor);
  Program& program = slot.run(std::vector<HostTensor>(batch.begin(), batch.begin() + 3));
  for (const char* name : {"start_log_prob", "class_logit"})
    EXPECT_LT(relative_error(read_output(program, name), fixture.at(cat("beam5.", name)).f32),
              16 * 0x1p-8)
        << name;
}

// Hugging Face's names of the encoder and the published scripts' of the heads.
TEST(ElectraQaAtItsPublishedSize, HasThePublishedVariables) {
  const auto instance_of = [](const char* config) {
    return ModelInstance(models::create_model("electra_base_qa", config),
                         std::shared_ptr<Backend>(make_backend_under_test(1)));
  };
  auto expected = published_variables("electra_base_qa");
  const ModelInstance second = instance_of(R"({"version": "2.0"})");
  EXPECT_EQ(variables_of(second), expected);
  EXPECT_EQ(second.variables().parameter_count(), 111256322);
  std::erase_if(expected, [](const auto& v) { return v.first.starts_with("answer_class."); });
  const ModelInstance first = instance_of("");
  EXPECT_EQ(variables_of(first), expected);
  EXPECT_EQ(first.variables().parameter_count(), 110075138);
}

TEST(BertSpanAtItsPublishedSize, HasThePublishedVariables) {
  const ModelInstance instance(models::create_model("bert_base", R"({"head": "span"})"),
                               std::shared_ptr<Backend>(make_backend_under_test(1)));
  auto expected = published_variables("bert_base");
  std::erase_if(expected, [](const auto& v) {
    return v.first.starts_with("cls.") || v.first.starts_with("bert.pooler.");
  });
  expected["qa_outputs.weight"] = "[2,768]";
  expected["qa_outputs.bias"] = "[2]";
  EXPECT_EQ(variables_of(instance), expected);
  EXPECT_EQ(instance.variables().parameter_count(), 108893186);
}

}  // namespace
}  // namespace assay::train
