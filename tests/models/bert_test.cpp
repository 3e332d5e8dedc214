// BERT against an independent implementation (tests/fixtures/models: transformers and PyTorch in
// float64): outputs, losses, every gradient, three steps of AdamW and LAMB; names and shapes at the
// published size.
//
// A key's bias shifts all scores of a query alike, so that its gradient is 0 but for rounding, of
// which AdamW and LAMB make steps.
#include <gmock/gmock.h>

#include <fstream>
#include <iterator>

#include "sdk/train/checkpoint/name_map.h"
#include "sdk/train/predictor.h"
#include "tests/models/text_parity.h"

namespace assay::train {
namespace {

using namespace test;

constexpr double kBiasOfKeys = 4 * 6.8e-4;

std::string tiny(const std::string& more = "") {
  return cat(R"({"vocabulary": 40, "hidden": 16, "layers": 2, "heads": 2, "inner": 32,
                 "positions": 12, "dropout": 0, "attention_dropout": 0)",
             more, "}");
}

std::vector<HostTensor> pretraining_batch(const Fixture& fixture) {
  return batch_of(fixture, {"ids", "segments", "lengths", "positions", "labels", "next_sentence"});
}

std::string trained(const std::string& optimizer, const std::string& more = "") {
  return cat("{", optimizer, R"(, "sequence_length": 10, "prediction_slots": 3)", more, "}");
}

struct Form {
  std::string fixture, config, trainer = "";
};
std::ostream& operator<<(std::ostream& out, const Form& form) { return out << form.fixture; }

class BertForms : public testing::TestWithParam<Form> {};

TEST_P(BertForms, LossesAndEveryGradient) {
  const Fixture start("models/bert_tiny"), expected("models/" + GetParam().fixture);
  const auto batch = pretraining_batch(start);
  const Loaded model("bert_base", tiny(GetParam().config), start);
  Trainer trainer(model.instance, config_of(trained(kSgd, GetParam().trainer), 4));
  const StepInfo info = trainer.backward(batch);
  EXPECT_NEAR(info.loss, expected.at("loss").f32[0], kOutputs * info.loss);
  for (const char* name : {"mlm_loss", "nsp_loss"})
    EXPECT_NEAR(trainer.scalar(name), expected.at(name).f32[0], kOutputs * info.loss) << name;
  expect_gradients(model, expected, kGradients);
}

INSTANTIATE_TEST_SUITE_P(Models, BertForms,
                         testing::Values(Form{"bert_tiny", ""},
                                         Form{"bert_tiny", "", R"(, "packed": true)"},
                                         Form{"bert_tiny.gelu_tanh", R"(, "gelu": "tanh")"},
                                         Form{"bert_tiny.epsilon_1e-5", R"(, "epsilon": 1e-5)"}),
                         [](const auto& param) { return "Case" + std::to_string(param.index); });

// TensorFlow's script divides by the count of masked words + 1e-5, which is ours; PyTorch's by the
// count, OneFlow's by it + 1e-5 for each sequence.
TEST(Bert, LossOfMaskedWordsIsThatOfAllScriptsButForEpsilon) {
  const Fixture fixture("models/bert_tiny");
  const Loaded model("bert_base", tiny(), fixture);
  Trainer trainer(model.instance, config_of(trained(kSgd), 4));
  trainer.backward(pretraining_batch(fixture));
  const auto& labels = fixture.at("input.labels").i32;
  const auto words = static_cast<double>(
      std::count_if(labels.begin(), labels.end(), [](int32_t label) { return label >= 0; }));
  const double sum = trainer.scalar("mlm_loss") * (words + 1e-5);
  for (const auto& [name, epsilon] :
       {std::pair{"pytorch_mlm_loss", 0.0}, std::pair{"oneflow_mlm_loss", 4e-5}}) {
    const double published = fixture.at(name).f32[0];
    EXPECT_NEAR(sum / (words + epsilon), published, kOutputs * published) << name;
  }
}

// Outputs, and what an evaluation adds up: of the masked words, and of the sequences.
TEST(Bert, Evaluation) {
  const Fixture fixture("models/bert_tiny");
  const Loaded model("bert_base", tiny(), fixture);
  Trainer trainer(model.instance, config_of(trained(kSgd), 4));
  const EvalOutputs outputs = trainer.eval(pretraining_batch(fixture));
  Program& program = trainer.eval_program();
  const auto& masked = fixture.at("masked_logits").f32;
  const auto& next = fixture.at("next_sentence_logits").f32;
  EXPECT_LT(relative_error(read_output(program, "masked_lm_logits"), masked), kOutputs);
  EXPECT_LT(relative_error(read_output(program, "next_sentence_logits"), next), kOutputs);
  const auto right = [](const std::vector<float>& logits, const std::vector<int32_t>& labels) {
    const size_t classes = logits.size() / labels.size();
    double count = 0;
    for (size_t i = 0; i < labels.size(); ++i) {
      const auto row = logits.begin() + static_cast<int64_t>(i * classes);
      count += labels[i] == std::max_element(row, row + static_cast<int64_t>(classes)) - row;
    }
    return count;
  };
  const auto& words = fixture.at("input.labels").i32;
  const auto counted = static_cast<double>(
      std::count_if(words.begin(), words.end(), [](int32_t word) { return word >= 0; }));
  const auto expect_output = [&](const char* name, double value, double weight, double bound) {
    const EvalOutput output = find_output(outputs, name);
    EXPECT_NEAR(output.value, value, bound * value) << name;
    EXPECT_EQ(output.weight, weight) << name;
  };
  expect_output("loss", 4 * fixture.at("loss").f32[0], 4, kOutputs);
  expect_output("mlm_loss", (counted + 1e-5) * fixture.at("mlm_loss").f32[0], counted, kOutputs);
  expect_output("nsp_loss", 4 * fixture.at("nsp_loss").f32[0], 4, kOutputs);
  expect_output("masked_accuracy", right(masked, words), counted, 0);
  expect_output("next_sentence_accuracy", right(next, fixture.at("input.next_sentence").i32), 4, 0);
}

// The gradient of the second of two logits' bias is the sum over sequences of p - 1 or p, p being
// the share of the second: how many times its size its terms are, as errors add up.
double terms_of_next_sentence_bias(const Fixture& fixture) {
  const auto& logits = fixture.at("next_sentence_logits").f32;
  const auto& labels = fixture.at("input.next_sentence").i32;
  double sum = 0, squares = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    const double p = 1 / (1 + std::exp(static_cast<double>(logits[2 * i] - logits[2 * i + 1])));
    sum += p - labels[i], squares += (p - labels[i]) * (p - labels[i]);
  }
  return std::sqrt(squares) / std::abs(sum);
}

TEST(Bert, InBf16) {
  const Fixture fixture("models/bert_tiny");
  for (const char* more : {"", R"(, "packed": true)"}) {
    SCOPED_TRACE(more);
    const Loaded model("bert_base", tiny(), fixture);
    const auto config = trained(kSgd, cat(R"(, "precision": "amp-bf16")", more));
    Trainer trainer(model.instance, config_of(config, 4));
    const StepInfo info = trainer.backward(pretraining_batch(fixture));
    EXPECT_NEAR(info.loss, fixture.at("loss").f32[0], 0x1p-8 * info.loss);
    // GPUs round biases, too.
    const bool rounds_more = model.instance->backend()->target().kind == Target::Kind::kCuda;
    const double terms = rounds_more ? terms_of_next_sentence_bias(fixture) : 1;
    expect_gradients(model, fixture, 16 * 0x1p-8, "grad.", {{"cls.seq_relationship.bias", terms}});
  }
}

void expect_steps_of(const std::string& rule, const std::string& optimizer) {
  const Fixture start("models/bert_tiny");
  const Loaded model("bert_base", tiny(), start);
  Trainer trainer(model.instance, config_of(trained(optimizer), 4));
  expect_steps(model, trainer, pretraining_batch(start), Fixture("models/bert_tiny." + rule),
               {{"key.bias"}, kBiasOfKeys});
}

TEST(Bert, ThreeStepsOfAdamWWithoutBiasCorrection) {
  expect_steps_of("adamw", R"("optimizer": {"name": "adamw", "learning_rate": 1,
      "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-6, "bias_correction": false, "clip_norm": 1,
      "weight_decay": 0.01, "group": [{"kind": ["bias", "layer_norm"], "weight_decay": 0}]})");
}

TEST(Bert, ThreeStepsOfLamb) {
  expect_steps_of("lamb", R"("optimizer": {"name": "lamb", "learning_rate": 1,
      "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-6, "clip_norm": 1, "weight_decay": 0.01,
      "group": [{"kind": ["bias", "layer_norm"], "weight_decay": 0, "no_trust_ratio": true}]})");
}

// The same weights, another shape of batch: what padding says does not matter.
TEST(Bert, LengthIsTheBatchsNotTheModels) {
  const Fixture fixture("models/bert_tiny");
  const Loaded model("bert_base", tiny(), fixture);
  const auto batch = batch_of(fixture, {"ids", "segments", "lengths", "positions"});
  std::vector<int32_t> ids, segments;
  for (int64_t n = 0; n < 4; ++n) {
    const auto append = [n](std::vector<int32_t>& to, const std::vector<int32_t>& from) {
      to.insert(to.end(), from.begin() + n * 10, from.begin() + (n + 1) * 10);
      to.insert(to.end(), {1, 1});
    };
    append(ids, fixture.at("input.ids").i32);
    append(segments, fixture.at("input.segments").i32);
  }
  const std::vector<HostTensor> longer{{DType::kI32, {4, 12}, ids.data()},
                                       {DType::kI32, {4, 12}, segments.data()},
                                       batch[2],
                                       batch[3]};
  const Predictor ten(*model.instance, {.sequence_length = 10, .prediction_slots = 3});
  const Predictor twelve(*model.instance, {.sequence_length = 12, .prediction_slots = 3});
  PredictorSlot of_ten(ten), of_twelve(twelve);
  const auto expected = read_output(of_ten.run(batch), "masked_lm_logits");
  EXPECT_LT(relative_error(read_output(of_twelve.run(longer), "masked_lm_logits"), expected),
            kOutputs);
}

// Batches of different fillings, prefetched and not, in evaluation too: each in a program of its
// own, to the same weights as padded ones.
TEST(Bert, PackedBatchesTrainAsPaddedOnes) {
  const Fixture fixture("models/bert_tiny");
  auto batch =
      batch_of(fixture, {"ids", "segments", "lengths", "positions", "labels", "next_sentence"});
  const std::vector<int32_t> full(4, 10), uneven{10, 3, 7, 4};
  std::vector<int32_t> at_start(12, 0);
  batch[3].data = at_start.data();
  const auto with = [&](const std::vector<int32_t>& lengths) {
    auto other = batch;
    other[2].data = lengths.data();
    return other;
  };
  const std::vector<std::vector<HostTensor>> batches{with(full), batch, with(uneven), with(full)};
  std::vector<std::vector<float>> losses;
  std::vector<double> evaluated;
  for (const char* more : {"", R"(, "packed": true)"}) {
    const Loaded model("bert_base", tiny(), fixture);
    Trainer trainer(model.instance, config_of(trained(kSgd, more), 4));
    auto& of_this = losses.emplace_back();
    for (size_t i = 0; i < batches.size(); i += 2) {
      trainer.prefetch(batches[i]), trainer.prefetch(batches[i + 1]);
      of_this.push_back(static_cast<float>(trainer.step({}).loss));
      of_this.push_back(static_cast<float>(trainer.step({}).loss));
    }
    for (const auto& each : batches) {
      of_this.push_back(static_cast<float>(trainer.step(each).loss));
      evaluated.push_back(find_output(trainer.eval(each), "loss").value);
    }
  }
  EXPECT_LT(relative_error(losses[1], losses[0]), kOutputs);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(evaluated[4 + i], evaluated[i], kOutputs * evaluated[i]) << i;
}

TEST(Bert, RefusesShapesThatItsTablesDoNotHave) {
  const Fixture fixture("models/bert_tiny");
  const Loaded model("bert_base", tiny(), fixture);
  const auto refusal = [&](std::optional<int64_t> length, std::optional<int64_t> slots) {
    TrainerConfig config = config_of(cat("{", kSgd, "}"), 4);
    config.sequence_length = length;
    config.prediction_slots = slots;
    return error_of([&] { Trainer(model.instance, config); }).message();
  };
  EXPECT_THAT(refusal(13, {}), testing::HasSubstr("sequence_length is 13"));
  EXPECT_THAT(refusal(10, 11), testing::HasSubstr("prediction_slots is 11"));
  EXPECT_THAT(refusal(0, {}), testing::HasSubstr("sequence_length is 0"));
}

TEST(Bert, RefusesLossesThatAreNoNumbers) {
  const Fixture fixture("models/bert_tiny");
  for (const auto& [name, loss] : {std::pair{"cls.predictions.bias", "mlm_loss"},
                                   std::pair{"cls.seq_relationship.bias", "nsp_loss"}}) {
    const Loaded start("bert_base", tiny(), fixture);
    Trainer trainer(start.instance, config_of(trained(kSgd), 4));
    expect_refused(start, trainer, pretraining_batch(fixture), name, loss,
                   fixture.at("loss").f32[0]);
  }
}

// Hugging Face's names and shapes, as transformers lists them; 110,106,428 parameters.
TEST(Bert, HasThePublishedVariables) {
  const ModelInstance instance(models::create_model("bert_base", ""),
                               std::shared_ptr<Backend>(test::make_backend_under_test(1)));
  EXPECT_EQ(variables_of(instance), published_variables("bert_base"));
  EXPECT_EQ(instance.variables().parameter_count(), 110106428);
}

weights::NameMap names(const std::string& of) {
  std::ifstream file(cat(ASSAY_SOURCE_DIR, "/models/names/", of, ".json"));
  return weights::parse_name_map(std::string(std::istreambuf_iterator<char>(file), {}));
}

// Google's names: kernels of dense layers lie there as [in, out], tables and the weights of the
// next sentence as ours.
TEST(Bert, HasNamesOfGoogle) {
  const weights::NameMap map = names("bert_google");
  const std::map<std::string, std::pair<std::string, std::string>> known{
      {"bert.embeddings.word_embeddings.weight", {"bert/embeddings/word_embeddings", "SAME"}},
      {"bert.embeddings.LayerNorm.weight", {"bert/embeddings/LayerNorm/gamma", "SAME"}},
      {"bert.encoder.layer.11.attention.self.key.weight",
       {"bert/encoder/layer_11/attention/self/key/kernel", "IO"}},
      {"bert.encoder.layer.0.attention.output.dense.weight",
       {"bert/encoder/layer_0/attention/output/dense/kernel", "IO"}},
      {"bert.encoder.layer.3.output.dense.bias",
       {"bert/encoder/layer_3/output/dense/bias", "SAME"}},
      {"bert.encoder.layer.3.output.LayerNorm.bias",
       {"bert/encoder/layer_3/output/LayerNorm/beta", "SAME"}},
      {"cls.predictions.bias", {"cls/predictions/output_bias", "SAME"}},
      {"cls.seq_relationship.weight", {"cls/seq_relationship/output_weights", "SAME"}},
      {"qa_outputs.weight", {"cls/squad/output_weights", "SAME"}},
      {"qa_outputs.bias", {"cls/squad/output_bias", "SAME"}}};
  auto variables = published_variables("bert_base");
  variables["qa_outputs.weight"] = variables["qa_outputs.bias"] = "";  // of the other head
  size_t found = 0;
  for (const auto& [name, dims] : variables) {
    const auto theirs = weights::name_in_file(map, name);
    ASSERT_TRUE(theirs) << name;
    EXPECT_EQ(weights::name_in_model(map, theirs->name)->name, name);
    const auto expected = known.find(name);
    if (expected == known.end()) continue;
    ++found;
    EXPECT_EQ(theirs->name, expected->second.first);
    EXPECT_EQ(theirs->rule->layout, expected->second.second) << name;
  }
  EXPECT_EQ(found, known.size());
}

// Every tensor has the name that it had before normalisations had a "weight".
TEST(Bert, HasOlderNamesOfHuggingFace) {
  const weights::NameMap map = names("bert_gamma_beta");
  for (const auto& [name, dims] : published_variables("bert_base")) {
    std::string older = name;
    const size_t norm = name.find("LayerNorm.");
    if (norm != std::string::npos)
      older.replace(norm + 10, std::string::npos, name.ends_with("weight") ? "gamma" : "beta");
    EXPECT_EQ(weights::name_in_file(map, name)->name, older);
    EXPECT_EQ(weights::name_in_model(map, older)->name, name);
  }
}

}  // namespace
}  // namespace assay::train
