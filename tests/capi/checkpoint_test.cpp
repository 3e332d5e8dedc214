#include <fstream>

#include "tests/capi/support.h"

namespace assay::test {
namespace {

using testing::HasSubstr;

class CheckpointTest : public SmallModel {
 protected:
  TemporaryFolder folder;
  std::string path = folder.at("model.ckpt");
};

TEST_F(CheckpointTest, ResumedTrainingHasTheSameBits) {
  const auto whole = make_model(), first = make_model(), second = make_model();
  const auto uninterrupted = make_trainer(whole.get());
  for (int i = 0; i < 6; ++i) step(uninterrupted.get(), batch);
  const std::string cursor("\0\377\1", 3);
  {
    const auto trainer = make_trainer(first.get());
    for (int i = 0; i < 3; ++i) step(trainer.get(), batch);
    ok(assay_trainer_set_metadata, trainer.get(), text("assay.cursor"), text(cursor));
    ok(assay_trainer_set_metadata, trainer.get(), text("note"), text("half way"));
    ok(assay_checkpoint_save, trainer.get(), text(path), 0u);
  }
  const auto trainer = make_trainer(second.get());
  step(trainer.get(), batch);  // to be forgotten
  ok(assay_trainer_set_metadata, trainer.get(), text("own"), text("x"));
  const auto loaded = report(assay_checkpoint_load, trainer.get(), text(path), 0u);
  EXPECT_EQ(number(loaded, "step"), 3);
  assay_str value{};
  ok(assay_trainer_get_metadata, trainer.get(), text("assay.cursor"), &value);
  EXPECT_EQ(string(value), cursor);
  ok(assay_trainer_get_metadata, trainer.get(), text("note"), &value);
  EXPECT_EQ(string(value), "half way");
  fails(ASSAY_E_NOT_FOUND, assay_trainer_get_metadata, trainer.get(), text("own"), &value);
  for (int i = 0; i < 3; ++i) step(trainer.get(), batch);
  for (const char* name : {"block1.conv.weight", "output.weight", "block1.bn.bias"}) {
    EXPECT_EQ(bits(whole.get(), name), bits(second.get(), name)) << name;
  }
}

TEST_F(CheckpointTest, ServesAModelWithoutATrainer) {
  const auto trained = make_model(), served = make_model();
  const auto trainer = make_trainer(trained.get());
  step(trainer.get(), batch);
  ok(assay_checkpoint_save, trainer.get(), text(path), 0u);
  ok(assay_model_load_weights, served.get(), text(path), text("checkpoint"), text(""), 0u, nullptr);
  EXPECT_EQ(bits(trained.get(), "output.weight"), bits(served.get(), "output.weight"));
  const auto mapped = make_model();
  ok(assay_model_load_weights, mapped.get(), text(path), text("checkpoint"), text("{}"), 0u,
     nullptr);
  EXPECT_EQ(bits(trained.get(), "output.weight"), bits(mapped.get(), "output.weight"));
}

// A host needs nothing but the file.
TEST_F(CheckpointTest, OpensTheModelOfAFile) {
  const auto trained = make_model();
  const auto trainer = make_trainer(trained.get());
  step(trainer.get(), batch);
  ok(assay_checkpoint_save, trainer.get(), text(path), 0u);
  assay_model* opened = nullptr;
  ok(assay_model_open, context.get(), text(path), &opened);
  const std::unique_ptr<assay_model, decltype(&assay_model_free)> owner(opened, assay_model_free);
  EXPECT_EQ(bits(trained.get(), "output.weight"), bits(opened, "output.weight"));
  EXPECT_EQ(at(report(assay_model_report, opened), "config").DebugString(),
            at(report(assay_model_report, trained.get()), "config").DebugString());
  const std::string weights = folder.at("w.safetensors"), back = folder.at("back.ckpt");
  report(assay_checkpoint_convert, text(path), text(weights), text("safetensors"), text(""), 0);
  ok(assay_checkpoint_save, trainer.get(), text(back), uint32_t{ASSAY_PART_WEIGHTS});
  assay_model* none = opened;
  const auto refusal = [&](const std::string& file) {
    Outcome outcome = call(assay_model_open, context.get(), text(file), &none);
    EXPECT_EQ(none, nullptr);
    return outcome;
  };
  EXPECT_THAT(refusal(back).message, HasSubstr("does not say what model it is of"));
  EXPECT_EQ(refusal(back).status, ASSAY_E_FORMAT);
  EXPECT_EQ(refusal(weights).status, ASSAY_E_FORMAT);
  EXPECT_EQ(refusal(folder.at("none")).status, ASSAY_E_NOT_FOUND);
}

TEST_F(CheckpointTest, AnOpenedModelHasItsMovingAverages) {
  const auto trained = make_model();
  const auto trainer = make_trainer(
      trained.get(), R"({"optimizer": {"name": "sgd", "ema_decay": 0.5, "ema_statistics": true}})");
  for (int i = 0; i < 3; ++i) step(trainer.get(), batch);
  ok(assay_checkpoint_save, trainer.get(), text(path), 0u);
  const auto opened = make<assay_model>(assay_model_open, context.get(), text(path));
  for (const char* name : {"output.weight", "block1.bn.running_mean"})
    EXPECT_EQ(bits(opened.get(), name, ASSAY_KIND_EMA), bits(trained.get(), name, ASSAY_KIND_EMA));
  EXPECT_NE(bits(opened.get(), "output.weight", ASSAY_KIND_EMA),
            bits(opened.get(), "output.weight"));
  const auto logits = [&](const assay_model* model, std::string_view config) {
    const auto predictor = make<assay_predictor>(assay_predictor_create, model, text(config));
    const auto slot = make<assay_slot>(assay_slot_create, predictor.get());
    assay_tensor* out = nullptr;
    ok(assay_predictor_run, predictor.get(), slot.get(), batch.tensors(), size_t{1}, &out,
       size_t{1});
    const Owned<assay_tensor> owned(out);
    std::vector<float> values(kBatch * 3);
    ok(assay_tensor_read, out, static_cast<void*>(values.data()), values.size() * sizeof(float));
    return values;
  };
  const std::string_view averaged = R"({"use_ema": true})";
  EXPECT_EQ(logits(opened.get(), averaged), logits(trained.get(), averaged));
  EXPECT_NE(logits(opened.get(), averaged), logits(opened.get(), ""));
  // Another training keeps none of them.
  const auto other = make_trainer(opened.get());
  assay_predictor* none = nullptr;
  fails(ASSAY_E_INVALID, assay_predictor_create, static_cast<const assay_model*>(opened.get()),
        text(averaged), &none);

  ok(assay_checkpoint_save, trainer.get(), text(path), uint32_t{ASSAY_PART_ALL & ~ASSAY_PART_EMA});
  const auto without = make<assay_model>(assay_model_open, context.get(), text(path));
  EXPECT_THAT(fails(ASSAY_E_INVALID, assay_predictor_create,
                    static_cast<const assay_model*>(without.get()), text(averaged), &none),
              HasSubstr("no moving averages"));
}

// Fine-tuning: what was pre-trained becomes the encoder of a model that answers questions, whose
// heads stay as they were drawn.
TEST_F(CheckpointTest, AnEncoderGoesOnUnderOtherHeads) {
  const std::string size = R"("vocabulary": 120, "hidden": 16, "layers": 1, "heads": 2,
                              "inner": 32, "positions": 8)";
  const auto pretrained = make<assay_model>(
      assay_model_named, context.get(), text("electra_base_pretraining"),
      text("{" + size + R"(, "generator_hidden": 8, "generator_layers": 1, "generator_heads": 2,
                             "generator_inner": 16})"));
  const assay_trainer_options options{
      .struct_size = sizeof options, .batch_size = 2, .learning_rate = 0.1};
  const auto trainer =
      make<assay_trainer>(assay_trainer_create, pretrained.get(), &options,
                          text(R"({"sequence_length": 8, "optimizer": {"name": "sgd"}})"));
  ok(assay_checkpoint_save, trainer.get(), text(path), 0u);
  const std::string weights = folder.at("w.safetensors");
  report(assay_checkpoint_convert, text(path), text(weights), text("safetensors"), text(""), 0);
  const auto answers = make<assay_model>(assay_model_named, context.get(), text("electra_base_qa"),
                                         text("{" + size + "}"));
  ok(assay_model_initialize, answers.get(), uint64_t{1});
  const auto loaded = report(assay_model_load_weights, answers.get(), text(weights),
                             text("safetensors"), text(""), uint32_t{ASSAY_WEIGHTS_PARTIAL});
  for (const char* name :
       {"electra.embeddings.word_embeddings.weight", "electra.embeddings.LayerNorm.bias",
        "electra.encoder.layer.0.attention.self.value.weight",
        "electra.encoder.layer.0.output.dense.weight"}) {
    EXPECT_EQ(bits(pretrained.get(), name), bits(answers.get(), name)) << name;
  }
  for (const auto& missing : at(loaded, "missing").list_value().values())
    EXPECT_THAT(missing.string_value(), testing::AnyOf(testing::StartsWith("start_logits."),
                                                       testing::StartsWith("end_logits.")));
  EXPECT_EQ(at(loaded, "missing").list_value().values_size(), 8);
}

TEST_F(CheckpointTest, Operations) {
  const auto model = make_model();
  const auto trainer = make_trainer(model.get());
  step(trainer.get(), batch);
  ok(assay_checkpoint_save, trainer.get(), text(path), 0u);
  const std::string later = folder.at("later.ckpt"), weights = folder.at("w.safetensors"),
                    back = folder.at("back.ckpt");
  step(trainer.get(), batch);
  ok(assay_checkpoint_save, trainer.get(), text(later), 0u);

  const auto inspected = report(assay_checkpoint_inspect, text(path));
  EXPECT_EQ(at(inspected, "step").string_value(), "1");
  EXPECT_EQ(at(inspected, "model_name").string_value(), "cnn");
  EXPECT_TRUE(at(report(assay_checkpoint_verify, text(path)), "ok").bool_value());
  EXPECT_TRUE(at(report(assay_checkpoint_diff, text(path), text(path)), "identical").bool_value());
  const auto different = report(assay_checkpoint_diff, text(path), text(later));
  EXPECT_FALSE(at(different, "identical").bool_value());
  EXPECT_GT(at(different, "tensors").list_value().values_size(), 3);

  report(assay_checkpoint_convert, text(path), text(weights), text("safetensors"), text(""), 0);
  report(assay_checkpoint_convert, text(weights), text(back), text("checkpoint"), text(""), 0);
  EXPECT_TRUE(at(report(assay_checkpoint_verify, text(back)), "ok").bool_value());
  const auto fail_convert = [&](std::string_view format, int32_t kind) {
    return call(assay_checkpoint_convert, text(path), text(weights), text(format), text(""), kind,
                nullptr)
        .status;
  };
  EXPECT_EQ(call(assay_checkpoint_convert, text(path), text(path), text("safetensors"), text(""), 0,
                 nullptr)
                .status,
            ASSAY_E_INVALID);  // onto itself
  EXPECT_TRUE(at(report(assay_checkpoint_verify, text(path)), "ok").bool_value());
  EXPECT_EQ(fail_convert("onnx", 0), ASSAY_E_INVALID);
  EXPECT_EQ(fail_convert("safetensors", ASSAY_KIND_GRADIENT), ASSAY_E_INVALID);
  EXPECT_EQ(fail_convert("safetensors", ASSAY_KIND_EMA), ASSAY_E_NOT_FOUND);
}

TEST_F(CheckpointTest, DamageIsNoticedAndChangesNothing) {
  const auto model = make_model();
  const auto trainer = make_trainer(model.get());
  step(trainer.get(), batch);
  ok(assay_checkpoint_save, trainer.get(), text(path), 0u);
  step(trainer.get(), batch);
  const auto weights = bits(model.get(), "output.weight");
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(0, std::ios::end);
    file.seekp(static_cast<std::streamoff>(file.tellg()) / 2);
    file.put('\x5a');
  }
  fails(ASSAY_E_FORMAT, assay_checkpoint_load, trainer.get(), text(path), 0u, nullptr);
  EXPECT_EQ(bits(model.get(), "output.weight"), weights);
  const auto verified = report(assay_checkpoint_verify, text(path));
  EXPECT_FALSE(at(verified, "ok").bool_value());
  EXPECT_GE(at(verified, "faults").list_value().values_size(), 1);
}

TEST_F(CheckpointTest, BadRequests) {
  const auto model = make_model();
  const auto trainer = make_trainer(model.get());
  const auto load = [&](std::string_view from, uint32_t parts) {
    return call(assay_checkpoint_load, trainer.get(), text(from), parts, nullptr).status;
  };
  EXPECT_EQ(load(path, 0), ASSAY_E_NOT_FOUND);
  EXPECT_EQ(load("", 0), ASSAY_E_INVALID);
  EXPECT_EQ(load(std::string_view("a\0b", 3), 0), ASSAY_E_INVALID);
  EXPECT_EQ(load(path, 64), ASSAY_E_INVALID);
  fails(ASSAY_E_NOT_FOUND, assay_checkpoint_save, trainer.get(), text(folder.at("no/where.ckpt")),
        0u);
  fails(ASSAY_E_INVALID, assay_checkpoint_save, trainer.get(), text(path), 32u);
  ok(assay_trainer_backward, trainer.get(), batch.tensors(), size_t{2}, nullptr);
  EXPECT_THAT(fails(ASSAY_E_INVALID, assay_checkpoint_save, trainer.get(), text(path), 0u),
              HasSubstr("apply"));
  ok(assay_trainer_apply, trainer.get(), nullptr);
  ok(assay_checkpoint_save, trainer.get(), text(path), uint32_t{ASSAY_PART_WEIGHTS});
  EXPECT_EQ(load(path, 0), ASSAY_E_INVALID);
  ok(assay_checkpoint_load, trainer.get(), text(path), uint32_t{ASSAY_PART_WEIGHTS}, nullptr);
  const auto other_model = make_model();
  const auto adam = make_trainer(other_model.get(), R"({"optimizer": {"name": "adam"}})");
  ok(assay_checkpoint_save, trainer.get(), text(path), 0u);
  EXPECT_THAT(fails(ASSAY_E_INVALID, assay_checkpoint_load, adam.get(), text(path), 0u, nullptr),
              HasSubstr("adam"));
  for (const auto f : {assay_checkpoint_inspect, assay_checkpoint_verify}) {
    assay_report* out = nullptr;
    fails(ASSAY_E_NOT_FOUND, f, text(folder.at("nothing")), &out);
    fails(ASSAY_E_INVALID, f, text(""), &out);
  }
}

}  // namespace
}  // namespace assay::test
