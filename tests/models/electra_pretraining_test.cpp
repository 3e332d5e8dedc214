// ELECTRA for pre-training against an independent implementation (tests/fixtures/models:
// transformers, PyTorch in float64, masks and draws of the engine's random numbers by NumPy):
// outputs, losses, every gradient, three steps of AdamW and LAMB, each with other masks; what an
// evaluation counts; names and shapes at the published size.
#include <gmock/gmock.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "sdk/train/checkpoint/weights.pb.h"
#include "sdk/train/predictor.h"
#include "sdk/train/trainer_checkpoint.h"
#include "sdk/train/weight_files.h"
#include "tests/models/text_parity.h"

namespace assay::train {
namespace {

using namespace test;

// A key's bias shifts all scores of a query alike: its gradient is 0 but for rounding, of which
// AdamW and LAMB make steps.
constexpr double kBiasOfKeys = 4 * 6.8e-4;

constexpr const char* kLamb = R"("optimizer": {"name": "lamb", "learning_rate": 1,
    "beta1": 0.878, "beta2": 0.974, "epsilon": 1e-6, "clip_norm": 1, "weight_decay": 0.01,
    "group": [{"kind": ["bias", "layer_norm"], "weight_decay": 0, "no_trust_ratio": true}]})";

std::string tiny(const std::string& more = "") {
  return cat(R"({"vocabulary": 40, "hidden": 16, "layers": 2, "heads": 2, "inner": 32,
                 "positions": 12, "dropout": 0, "attention_dropout": 0, "generator_hidden": 8,
                 "generator_layers": 2, "generator_heads": 2, "generator_inner": 16,
                 "masked_fraction": 0.3, "cls": 1, "sep": 2, "mask": 3)",
             more, "}");
}

std::string trained(const std::string& optimizer, const std::string& more = "") {
  return cat("{", optimizer, R"(, "sequence_length": 10, "seed": 1686)", more, "}");
}

class ElectraPretraining : public testing::Test {
 protected:
  Loaded model(const std::string& more = "") const {
    return {"electra_base_pretraining", tiny(more), fixture};
  }
  std::vector<HostTensor> batch() const {
    return batch_of(fixture, {"ids", "segments", "lengths"});
  }
  float at(const std::string& name) const { return fixture.at(name).f32[0]; }

  void expect_steps_of(const std::string& rule, const std::string& optimizer) const {
    const Loaded start = model();
    Trainer trainer(start.instance, config_of(trained(optimizer), 4));
    expect_steps(start, trainer, batch(), Fixture("models/electra_tiny." + rule),
                 {{"key.bias"}, kBiasOfKeys});
  }

  Fixture fixture{"models/electra_tiny"};
};

TEST_F(ElectraPretraining, LossesAndEveryGradient) {
  for (const char* more : {"", R"(, "packed": true)"}) {
    SCOPED_TRACE(more);
    const Loaded start = model();
    Trainer trainer(start.instance, config_of(trained(kSgd, more), 4));
    const StepInfo info = trainer.backward(batch());
    EXPECT_NEAR(info.loss, at("loss"), kOutputs * info.loss);
    for (const char* name : {"mlm_loss", "rtd_loss"})
      EXPECT_NEAR(trainer.scalar(name), at(name), kOutputs * at(name)) << name;
    expect_gradients(start, fixture, kGradients);
  }
}

TEST_F(ElectraPretraining, WeightsOfLosses) {
  const Loaded start = model(R"(, "generator_weight": 2, "discriminator_weight": 3)");
  Trainer trainer(start.instance, config_of(trained(kSgd), 4));
  const double loss = 2 * at("mlm_loss") + 3 * at("rtd_loss");
  EXPECT_NEAR(trainer.backward(batch()).loss, loss, kOutputs * loss);
}

TEST_F(ElectraPretraining, ThreeStepsOfAdamWWithoutBiasCorrection) {
  expect_steps_of("adamw", R"("optimizer": {"name": "adamw", "learning_rate": 1,
      "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-6, "bias_correction": false, "clip_norm": 1,
      "weight_decay": 0.01, "group": [{"kind": ["bias", "layer_norm"], "weight_decay": 0}]})");
}

TEST_F(ElectraPretraining, ThreeStepsOfLamb) { expect_steps_of("lamb", kLamb); }

TEST_F(ElectraPretraining, InBf16) {
  for (const char* more : {"", R"(, "packed": true)"}) {
    SCOPED_TRACE(more);
    const Loaded start = model();
    const auto config = trained(kSgd, cat(R"(, "precision": "amp-bf16")", more));
    Trainer trainer(start.instance, config_of(config, 4));
    const StepInfo info = trainer.backward(batch());
    EXPECT_NEAR(info.loss, at("loss"), 0x1p-7 * info.loss);
    expect_gradients(start, fixture, 16 * 0x1p-8);
  }
}

// An evaluation draws what the first batch of a training draws, which the fixture has.
TEST_F(ElectraPretraining, Evaluation) {
  const Loaded start = model();
  Trainer trainer(start.instance, config_of(trained(kSgd), 4));
  const EvalOutputs outputs = trainer.eval(batch());
  Program& program = trainer.eval_program();
  const auto& guesses = fixture.at("generator_logits").f32;
  const auto& found = fixture.at("discriminator_logits").f32;
  const auto& labels = fixture.at("input.labels").i32;
  const auto& replaced = fixture.at("input.replaced").i32;
  EXPECT_LT(relative_error(read_output(program, "generator_logits"), guesses), kOutputs);

  double slots = 0, guessed = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto row = guesses.begin() + static_cast<int64_t>(40 * i);
    slots += labels[i] >= 0;
    guessed += labels[i] == std::max_element(row, row + 40) - row;
  }
  double tokens = 0, right = 0, hits = 0, claims = 0, fakes = 0;
  const auto got = read_output(program, "discriminator_logits");
  for (size_t i = 0; i < replaced.size(); ++i) {
    if (replaced[i] < 0) continue;
    EXPECT_NEAR(got[i], found[i], 1e-5) << i;
    const bool claimed = found[i] > 0, fake = replaced[i] == 1;
    tokens += 1, right += claimed == fake, hits += claimed && fake, claims += claimed;
    fakes += fake;
  }
  ASSERT_TRUE(hits > 0 && claims > hits && fakes > hits);  // each count has its case
  const auto expect_output = [&](const char* name, double value, double weight, double bound) {
    const EvalOutput output = find_output(outputs, name);
    EXPECT_NEAR(output.value, value, bound * value) << name;
    EXPECT_EQ(output.weight, weight) << name;
    EXPECT_EQ(output.reduction, nn::Reduction::kMean) << name;
  };
  expect_output("loss", 4 * at("loss"), 4, kOutputs);
  expect_output("mlm_loss", (slots + 1e-6) * at("mlm_loss"), slots, kOutputs);
  expect_output("rtd_loss", tokens * at("rtd_loss"), tokens, kOutputs);
  expect_output("masked_accuracy", guessed, slots, 0);
  expect_output("replaced_accuracy", right, tokens, 0);
  expect_output("replaced_precision", hits, claims, 0);
  expect_output("replaced_recall", hits, fakes, 0);
}

// Rows that fill up the last batch count nowhere.
TEST_F(ElectraPretraining, EvaluationLeavesOutRowsOfPadding) {
  const Loaded start = model();
  TrainerConfig config = config_of(trained(kSgd), 4);
  config.eval_batch_size = 6;
  Trainer four(start.instance, config_of(trained(kSgd), 4)), six(start.instance, config);
  const auto filled = [&](const std::string& name, size_t rows) {
    std::vector<int32_t> values = fixture.at("input." + name).i32;
    values.resize(values.size() / 4 * rows, 0);
    return values;
  };
  const auto ids = filled("ids", 6), types = filled("segments", 6), lengths = filled("lengths", 6);
  const EvalOutputs expected = four.eval(batch());
  const EvalOutputs got = six.eval(std::vector<HostTensor>{{DType::kI32, {6, 10}, ids.data()},
                                                           {DType::kI32, {6, 10}, types.data()},
                                                           {DType::kI32, {6}, lengths.data()}});
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].weight, expected[i].weight) << got[i].name;
    EXPECT_NEAR(got[i].value, expected[i].value, kOutputs * expected[i].value) << got[i].name;
  }
}

// Evaluations of the same weights are equal, however many came before, and take no random numbers
// from the training.
TEST_F(ElectraPretraining, EvaluationDrawsApartFromTraining) {
  const auto losses = [&](bool evaluated) {
    const Loaded start = model();
    Trainer trainer(start.instance, config_of(trained(kSgd), 4));
    const auto evaluate = [&] { return find_output(trainer.eval(batch()), "loss").value; };
    trainer.set("learning_rate", 1e-30);  // no weight moves
    std::vector<double> all;
    const double first = evaluate();
    for (int step = 0; step < 4; ++step) {
      all.push_back(trainer.step(batch()).loss);
      if (evaluated) {
        EXPECT_EQ(evaluate(), first) << step;
      }
    }
    return all;
  };
  const auto alone = losses(false);
  EXPECT_EQ(losses(true), alone);
  EXPECT_NE(alone[0], alone[1]);  // each batch is masked anew
}

TEST_F(ElectraPretraining, PredictsWhichTokensAreReplaced) {
  const Loaded start = model();
  auto corrupted = batch();
  corrupted[0] = host(fixture.at("input.corrupted_ids"));
  const Predictor predictor(*start.instance, {.sequence_length = 10});
  PredictorSlot slot(predictor);
  const auto got = read_output(slot.run(corrupted), "discriminator_logits");
  const auto& replaced = fixture.at("input.replaced").i32;
  for (size_t i = 0; i < replaced.size(); ++i) {
    if (replaced[i] < 0) continue;
    EXPECT_NEAR(got[i], fixture.at("discriminator_logits").f32[i], 1e-5) << i;
  }
}

// As published: 19 of 128 tokens, 79 of 512.
TEST(ElectraSlots, FollowTheLengthOfSequences) {
  const auto instance = std::make_shared<ModelInstance>(
      models::create_model("electra_base_pretraining",
                           R"({"vocabulary": 104, "hidden": 8, "layers": 1, "heads": 1, "inner": 8,
      "generator_hidden": 8, "generator_layers": 1, "generator_heads": 1, "generator_inner": 8})"),
      std::shared_ptr<Backend>(make_backend_under_test(1)));
  const auto slots_of = [&](const std::string& more) {
    Trainer trainer(instance, config_of(cat("{", kSgd, more, "}"), 2));
    return trainer.eval_program().output("generator_logits").type.dims[0] / 2;
  };
  EXPECT_EQ(slots_of(""), 19);
  EXPECT_EQ(slots_of(R"(, "sequence_length": 512)"), 79);
  EXPECT_EQ(slots_of(R"(, "sequence_length": 3)"), 1);
  EXPECT_EQ(slots_of(R"(, "prediction_slots": 20)"), 20);
}

TEST_F(ElectraPretraining, RefusesWhatItCannotUse) {
  const auto created = [&](const std::string& config) {
    return error_of([&] { models::create_model("electra_base_pretraining", config); }).message();
  };
  EXPECT_THAT(created(R"({"generator_hidden": 9, "generator_heads": 2})"),
              testing::HasSubstr("generator_hidden is 9, expected a multiple"));
  EXPECT_THAT(created(R"({"masked_fraction": 0})"),
              testing::HasSubstr("masked_fraction is 0, expected a number"));
  for (const char* piece : {"cls", "sep", "mask"}) {
    EXPECT_THAT(created(cat(R"({"vocabulary": 104, ")", piece, "\": 104}")),
                testing::HasSubstr(cat(piece, " is 104, expected a row of the word table (104")));
  }
}

TEST_F(ElectraPretraining, RefusesBatchesThatItsTablesDoNotHave) {
  const Loaded start = model();
  Trainer trainer(start.instance, config_of(trained(kSgd), 4));
  const auto with = [&](size_t input, size_t place, int32_t value) {
    auto changed = batch();
    std::vector<int32_t> values =
        fixture.at(cat("input.", std::array{"ids", "segments", "lengths"}[input])).i32;
    values[place] = value;
    changed[input].data = values.data();
    return error_of([&] { trainer.step(changed); }).message();
  };
  EXPECT_THAT(with(0, 3, 40), testing::HasSubstr("input_ids[3]"));
  EXPECT_THAT(with(0, 3, -1), testing::HasSubstr("input_ids[3]"));
  EXPECT_THAT(with(1, 0, 2), testing::HasSubstr("segment_ids[0]"));
  EXPECT_THAT(with(2, 1, 0), testing::HasSubstr("length[1]"));
  EXPECT_THAT(with(2, 1, 11), testing::HasSubstr("length[1]"));
  EXPECT_EQ(trainer.step(batch()).loss > 0, true);  // nothing is lost
}

TEST_F(ElectraPretraining, RefusesLengthsWithoutPositions) {
  const Loaded start = model();
  for (const int64_t length : {0, 13}) {
    TrainerConfig config = config_of(trained(kSgd), 4);
    config.sequence_length = length;
    EXPECT_THAT(error_of([&] { Trainer(start.instance, config); }).message(),
                testing::HasSubstr(cat("sequence_length is ", length)));
  }
}

// A loss that is no number stops the step, whichever it is, and changes nothing.
TEST_F(ElectraPretraining, RefusesLossesThatAreNoNumbers) {
  for (const auto& [name, loss] : {std::pair{"generator_lm_head.bias", "mlm_loss"},
                                   std::pair{"discriminator_predictions.dense.bias", "rtd_loss"}}) {
    const Loaded start = model();
    Trainer trainer(start.instance, config_of(trained(kSgd), 4));
    expect_refused(start, trainer, batch(), name, loss, at("loss"));
  }
}

class ElectraFiles : public ElectraPretraining {
 protected:
  std::string path = testing::TempDir() + cat("electra_pretraining.", getpid());
  void TearDown() override { std::filesystem::remove(path); }

  static void expect_weights_of(const Loaded& first, const ModelInstance& second) {
    for (const auto& [name, dims] : variables_of(second)) {
      const SegmentTensor tensor = second.segments().tensor(name, Role::kValue);
      std::vector<float> values(tensor.bytes() / 4);
      second.backend()->read(values.data(), tensor.data, tensor.bytes());
      EXPECT_EQ(values, first.read(name, Role::kValue)) << name;
    }
  }
  static weights::NameMap names(const std::string& of) {
    std::ifstream file(cat(ASSAY_SOURCE_DIR, "/models/names/", of, ".json"));
    return weights::parse_name_map(std::string(std::istreambuf_iterator<char>(file), {}));
  }
};

// Phase 2: longer sequences on the weights and moments of shorter ones; steps, LAMB's bias
// correction and draws count from 0. Rows of positions that phase 1 had not are moved all the same:
// their gradient is 0, their decay is not.
TEST_F(ElectraFiles, LongerSequencesContinueShorterOnes) {
  const Loaded first = model(), second = model();
  Trainer shorter(first.instance, config_of(trained(kLamb), 4));
  const Fixture second_phase("models/electra_tiny.second_phase");
  const WithoutGradient biases{{"key.bias"}, kBiasOfKeys};
  expect_steps(first, shorter, batch(), Fixture("models/electra_tiny.lamb"), biases);
  const std::string positions = "electra.embeddings.position_embeddings.weight";
  for (const size_t i : {10 * 16, 12 * 16 - 1})
    EXPECT_NE(first.read(positions, Role::kValue)[i], second.read(positions, Role::kValue)[i]);
  save_checkpoint(shorter, path, checkpoint::kAllParts, {});

  TrainerConfig config = config_of(trained(kLamb), 4);
  config.sequence_length = 12;
  Trainer longer(second.instance, config);
  const auto reader = checkpoint::CheckpointReader::open(path);
  load_checkpoint(longer, reader, checkpoint::kWeights | checkpoint::kMoments);
  EXPECT_EQ(longer.step_count(), 0);
  for (const SegmentTensor& tensor : first.instance->segments().all()) {
    const Role role = tensor.role;
    if (role != Role::kValue && role != Role::kMoment1 && role != Role::kMoment2) continue;
    const std::string& name = tensor.variable->name;
    EXPECT_EQ(second.read(name, role), first.read(name, role)) << name;
  }
  expect_steps(second, longer, batch_of(second_phase, {"ids", "segments", "lengths"}), second_phase,
               biases);
  EXPECT_EQ(longer.step_count(), 2);
  // Going on where the shorter one stopped is another matter: that wants the same training.
  EXPECT_THAT(error_of([&] { load_checkpoint(longer, reader, checkpoint::kAllParts); }).message(),
              testing::HasSubstr("sequence_length"));
}

TEST_F(ElectraFiles, RefusesCheckpointsOfOtherSizes) {
  const Loaded first = model();
  Trainer trainer(first.instance, config_of(trained(kSgd), 4));
  save_checkpoint(trainer, path, checkpoint::kAllParts, {});
  const auto reader = checkpoint::CheckpointReader::open(path);
  const auto loaded_into = [&](const std::string& config) {
    ModelInstance other(models::create_model("electra_base_pretraining", config),
                        std::shared_ptr<Backend>(make_backend_under_test(1)));
    return error_of([&] { load_weights(other, reader); }).message();
  };
  EXPECT_THAT(loaded_into(R"({"vocabulary": 104, "hidden": 16, "heads": 2, "layers": 1})"),
              testing::HasSubstr("vocabulary"));
  EXPECT_THAT(loaded_into(tiny(R"(, "generator_weight": 2)")),
              testing::HasSubstr("generator_weight"));
}

// Each of Hugging Face's two files holds one network; together they are the model again.
TEST_F(ElectraFiles, OfBothNetworksMakeTheModel) {
  const Loaded first = model();
  ModelInstance second(models::create_model("electra_base_pretraining", tiny()),
                       std::shared_ptr<Backend>(make_backend_under_test(1)));
  second.ensure_initialized(5);
  size_t loaded = 0;
  for (const char* network : {"electra_generator", "electra_discriminator"}) {
    export_weights(*first.instance, path, names(network));
    const auto file = safetensors::Reader::open(path);
    const weights::LoadReport report =
        import_weights(second, file, {.map = names(network), .allow_partial = true});
    EXPECT_EQ(report.unused_size() + report.mismatched_size(), 0) << network;
    loaded += static_cast<size_t>(report.loaded_size());
  }
  EXPECT_EQ(loaded, variables_of(second).size() + 5);  // the embeddings are in both
  expect_weights_of(first, second);
}

// Google's file of both networks: kernels lie there as [in, out].
TEST_F(ElectraFiles, OfGoogleHoldTransposedKernels) {
  const Loaded first = model();
  export_weights(*first.instance, path, names("electra_google"));
  const auto file = safetensors::Reader::open(path);
  const auto dims_of = [&](const std::string& name) {
    for (const auto& tensor : file.tensors())
      if (tensor.name == name) return tensor.dims;
    return std::vector<int64_t>{};
  };
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(dims_of("electra/embeddings/word_embeddings"), (Sizes{40, 16}));
  EXPECT_EQ(dims_of("electra/encoder/layer_1/intermediate/dense/kernel"), (Sizes{16, 32}));
  EXPECT_EQ(dims_of("electra/encoder/layer_0/attention/output/LayerNorm/gamma"), (Sizes{16}));
  EXPECT_EQ(dims_of("generator/embeddings_project/kernel"), (Sizes{16, 8}));
  EXPECT_EQ(dims_of("generator/encoder/layer_0/output/dense/kernel"), (Sizes{16, 8}));
  EXPECT_EQ(dims_of("discriminator_predictions/dense_1/kernel"), (Sizes{16, 1}));
  EXPECT_EQ(dims_of("generator_predictions/output_bias"), (Sizes{40}));
  ModelInstance second(models::create_model("electra_base_pretraining", tiny()),
                       std::shared_ptr<Backend>(make_backend_under_test(1)));
  import_weights(second, file, {.map = names("electra_google")});  // whole
  expect_weights_of(first, second);
}

// Names and shapes as transformers lists them, the generator's encoder apart.
TEST(ElectraPretrainingAtItsPublishedSize, HasThePublishedVariables) {
  const auto instance_of = [](const std::string& config) {
    return std::make_unique<ModelInstance>(
        models::create_model("electra_base_pretraining", config),
        std::shared_ptr<Backend>(test::make_backend_under_test(1)));
  };
  const auto instance = instance_of("");
  EXPECT_EQ(variables_of(*instance), published_variables("electra_base_pretraining"));
  EXPECT_EQ(instance->variables().parameter_count(), 119391041);
  EXPECT_EQ(instance_of(R"({"vocabulary": 30522})")->variables().parameter_count(), 119386427);
}

}  // namespace
}  // namespace assay::train
