// Weights that another program trained go on here: torchvision's file under its own names, another
// head, parts that stay as they are. tests/fixtures/models/make_torchvision.py wrote the file.
#include <cmath>
#include <fstream>
#include <map>
#include <set>

#include "tests/capi/support.h"

namespace assay::test {
namespace {

using testing::HasSubstr;

const std::string kFolder = ASSAY_SOURCE_DIR "/tests/fixtures/models/";
const std::string kTorchvision = kFolder + "torchvision_resnet50.safetensors";

constexpr int64_t kImages = 2, kRows = 40, kColumns = 33;
const int64_t kShape[] = {kImages, kRows, kColumns, 3};

class FineTuningTest : public SmallModel {
 protected:
  FineTuningTest() : pixels_(kImages * kRows * kColumns * 3) {
    for (size_t i = 0; i < pixels_.size(); ++i)
      pixels_[i] = static_cast<float>(37 * i % 101) / 101.0f - 0.5f;
    images_ =
        make<assay_tensor>(assay_tensor_borrow, context.get(), static_cast<void*>(pixels_.data()),
                           pixels_.size() * sizeof(float), ASSAY_F32, kShape, 4, nullptr, 0);
    labels_ = make<assay_tensor>(assay_tensor_new, context.get(), kCpu, ASSAY_I32, kShape, 1);
  }

  Owned<assay_model> resnet50(int classes) const {
    return make<assay_model>(
        assay_model_named, context.get(), text("resnet50"),
        text(R"({"image": [40, 33, 3], "width": 2, "classes": )" + std::to_string(classes) + "}"));
  }
  google::protobuf::Struct load(assay_model* model, std::string_view map) const {
    return report(assay_model_load_weights, model, text(kTorchvision), text("safetensors"),
                  text(map), 0u);
  }
  std::vector<float> logits(const assay_model* model, std::string_view config = "") const {
    const auto predictor = make<assay_predictor>(assay_predictor_create, model, text(config));
    const auto slot = make<assay_slot>(assay_slot_create, predictor.get());
    const assay_tensor* const in[] = {images_.get()};
    assay_tensor* out = nullptr;
    ok(assay_predictor_run, predictor.get(), slot.get(), in, size_t{1}, &out, size_t{1});
    const Owned<assay_tensor> owned(out);
    assay_tensor_info info{.struct_size = sizeof info};
    ok(assay_tensor_get_info, out, &info);
    std::vector<float> values(info.bytes / sizeof(float));
    ok(assay_tensor_read, out, static_cast<void*>(values.data()), info.bytes);
    return values;
  }
  // Of every variable that has this kind of tensor.
  std::map<std::string, std::vector<std::byte>> all_bits(const assay_model* model,
                                                         int32_t kind = ASSAY_KIND_VALUE) const {
    std::map<std::string, std::vector<std::byte>> all;
    const auto described = report(assay_model_report, model);
    for (const auto& each : at(described, "variables").list_value().values()) {
      const std::string& name = at(each.struct_value(), "name").string_value();
      if (at(each.struct_value(), "role").string_value() == "value")
        all[name] = bits(model, name, kind);
    }
    return all;
  }
  Owned<assay_trainer> trainer_of(assay_model* model, const std::string& groups) const {
    const assay_trainer_options options{
        .struct_size = sizeof options, .batch_size = kImages, .learning_rate = 0.05};
    return make<assay_trainer>(
        assay_trainer_create, model, &options,
        text(R"({"optimizer": {"name": "sgd", "momentum": 0.9, "ema_decay": 0.5, "group": [)" +
             groups + "]}}"));
  }
  void train(assay_trainer* trainer, int steps) const {
    const assay_tensor* const in[] = {images_.get(), labels_.get()};
    for (int i = 0; i < steps; ++i) ok(assay_trainer_step, trainer, in, size_t{2}, nullptr);
  }

 private:
  std::vector<float> pixels_;
  Owned<assay_tensor> images_, labels_;
};

TEST_F(FineTuningTest, TorchvisionsFileGivesTorchvisionsLogits) {
  const auto model = resnet50(5);
  const auto loaded = load(model.get(), "");
  EXPECT_EQ(at(loaded, "loaded").list_value().values_size(), 267);
  EXPECT_EQ(at(loaded, "unused").list_value().values_size(), 53);  // counters of batch norms
  const std::vector<float> actual = logits(model.get());
  std::ifstream table(kFolder + "torchvision_resnet50_logits.tsv");
  std::vector<double> expected;
  for (double value = 0; table >> value;) expected.push_back(value);
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 4e-5) << i;
}

// There is no model whose shapes could tell the layout: it has to be said.
TEST_F(FineTuningTest, TorchvisionsFileBecomesACheckpoint) {
  const TemporaryFolder folder;
  const std::string converted = folder.at("a.ckpt");
  const auto convert = [&](std::string_view map) {
    return call(assay_checkpoint_convert, text(kTorchvision), text(converted), text("checkpoint"),
                text(map), 0, nullptr);
  };
  const Outcome refused = convert("");
  EXPECT_EQ(refused.status, ASSAY_E_INVALID);
  EXPECT_THAT(refused.message, HasSubstr("conv1.weight"));
  EXPECT_THAT(refused.message, HasSubstr("OIHW"));
  EXPECT_EQ(convert(R"({"keep": ["fc.*"]})").argument, "keep");
  const Outcome done = convert(R"({"rules": [{"file": "*", "model": "*", "layout": "OIHW"}]})");
  EXPECT_EQ(done.status, ASSAY_OK) << done.message;
  const auto direct = resnet50(5), by_checkpoint = resnet50(5);
  load(direct.get(), "");
  ok(assay_model_load_weights, by_checkpoint.get(), text(converted), text("checkpoint"), text(""),
     0u, nullptr);
  EXPECT_EQ(all_bits(by_checkpoint.get()), all_bits(direct.get()));
  EXPECT_EQ(logits(by_checkpoint.get()), logits(direct.get()));
}

TEST_F(FineTuningTest, AllButTheHeadIsLoaded) {
  const auto published = resnet50(5), own = resnet50(3), drawn = resnet50(3);
  load(published.get(), "");
  const auto refusal = [&](std::string_view map) {
    return call(assay_model_load_weights, own.get(), text(kTorchvision), text("safetensors"),
                text(map), 0u, nullptr);
  };
  const std::string_view keep_head = R"({"keep": ["fc.*"]})";
  EXPECT_THAT(refusal(keep_head).message, HasSubstr("initialize it first"));
  ok(assay_model_initialize, own.get(), uint64_t{7});
  ok(assay_model_initialize, drawn.get(), uint64_t{7});
  EXPECT_THAT(refusal("").message, HasSubstr("fc."));
  const Outcome misspelt = refusal(R"({"keep": ["fc.*", "fc.wieght"]})");
  EXPECT_EQ(misspelt.argument, "keep[1]");
  EXPECT_THAT(misspelt.hint, HasSubstr("fc.weight"));
  // What is not kept must be there: no block is left as drawn because its name was wrong.
  EXPECT_THAT(refusal(R"({"keep": ["fc.bias"]})").message, HasSubstr("fc.weight"));
  EXPECT_EQ(all_bits(own.get()), all_bits(drawn.get()));

  const auto loaded = load(own.get(), keep_head);
  EXPECT_EQ(at(loaded, "kept").list_value().values_size(), 2);
  EXPECT_EQ(at(loaded, "missing").list_value().values_size(), 0);
  const auto expected = all_bits(published.get()), fresh = all_bits(drawn.get());
  for (const auto& [name, now] : all_bits(own.get()))
    EXPECT_EQ(now, name.starts_with("fc.") ? fresh.at(name) : expected.at(name)) << name;
}

// Of a checkpoint of another head, too, and what is in it alone fits by name.
// The head of another size is named with both shapes; of a file that fits nowhere nothing could be
// meant, also where a part of it would do.
TEST_F(FineTuningTest, WhatDoesNotFitIsNamed) {
  const auto model = resnet50(3);
  ok(assay_model_initialize, model.get(), uint64_t{1});
  const auto load_by = [&](std::string_view map, uint32_t flags) {
    return call(assay_model_load_weights, model.get(), text(kTorchvision), text("safetensors"),
                text(map), flags, nullptr);
  };
  const Outcome head = load_by("", 0);
  EXPECT_EQ(head.status, ASSAY_E_INVALID);
  EXPECT_THAT(head.argument, testing::StartsWith("fc."));
  EXPECT_THAT(head.expected, HasSubstr("[3"));
  EXPECT_NE(head.actual, "");
  const auto before = all_bits(model.get());
  const Outcome none =
      load_by(R"({"rules": [{"file": "lay.*", "model": "layer.*"}]})", ASSAY_WEIGHTS_PARTIAL);
  EXPECT_EQ(none.status, ASSAY_E_INVALID);
  EXPECT_THAT(none.message, HasSubstr("no tensor of the file has the name and shape"));
  EXPECT_EQ(all_bits(model.get()), before);
}

TEST_F(FineTuningTest, AllButTheHeadOfACheckpointIsLoaded) {
  const auto published = resnet50(5), own = resnet50(3), drawn = resnet50(3);
  load(published.get(), "");
  ok(assay_model_initialize, own.get(), uint64_t{7});
  ok(assay_model_initialize, drawn.get(), uint64_t{7});
  const TemporaryFolder folder;
  const std::string checkpoint = folder.at("five.ckpt");
  ok(assay_checkpoint_save, trainer_of(published.get(), "").get(), text(checkpoint), 0u);
  const auto load_own = [&](std::string_view map, uint32_t flags) {
    return call(assay_model_load_weights, own.get(), text(checkpoint), text("checkpoint"),
                text(map), flags, nullptr);
  };
  EXPECT_THAT(load_own("", 0).hint, HasSubstr("assay_model_load_weights with \"keep\""));
  EXPECT_THAT(load_own(R"({"keep": ["fc.bias"]})", 0).message,
              HasSubstr("where fc.weight needs f32 [3,"));
  EXPECT_THAT(load_own(R"({"keep": ["fx.*"]})", 0).hint, HasSubstr("\"fc.*\""));
  EXPECT_EQ(all_bits(own.get()), all_bits(drawn.get()));
  const auto expected = all_bits(published.get()), fresh = all_bits(drawn.get());
  for (const bool by_shape : {false, true}) {
    const Outcome loaded =
        by_shape ? load_own("", ASSAY_WEIGHTS_PARTIAL) : load_own(R"({"keep": ["fc.*"]})", 0);
    EXPECT_EQ(loaded.status, ASSAY_OK) << loaded.message;
    for (const auto& [name, now] : all_bits(own.get()))
      EXPECT_EQ(now, name.starts_with("fc.") ? fresh.at(name) : expected.at(name)) << name;
  }
}

// relu would hide it.
TEST_F(FineTuningTest, WeightsThatAreNaNAreRefused) {
  const auto published = resnet50(5), own = resnet50(5);
  load(published.get(), "");
  ok(assay_model_initialize, own.get(), uint64_t{7});
  const auto before = all_bits(own.get());
  {
    const auto tensor = make<assay_tensor>(assay_model_tensor, published.get(),
                                           text("layer1.0.conv1.weight"), ASSAY_KIND_VALUE);
    assay_tensor_info info{.struct_size = sizeof info};
    ok(assay_tensor_get_info, tensor.get(), &info);
    std::vector<float> values(info.bytes / sizeof(float), 0.5f);
    values.back() = -std::nanf("");
    ok(assay_tensor_write, tensor.get(), static_cast<const void*>(values.data()), info.bytes);
  }
  const TemporaryFolder folder;
  const std::string file = folder.at("nan.safetensors");
  ok(assay_model_save_weights, published.get(), text(file), text("safetensors"), text(""));
  const Outcome refused = call(assay_model_load_weights, own.get(), text(file), text("safetensors"),
                               text(""), 0u, nullptr);
  EXPECT_EQ(refused.status, ASSAY_E_FORMAT);
  EXPECT_THAT(refused.message, HasSubstr("layer1.0.conv1.weight holds NaN"));
  EXPECT_EQ(all_bits(own.get()), before);
  // What is kept is not the file's.
  ok(assay_model_load_weights, published.get(), text(kTorchvision), text("safetensors"),
     text(R"({"keep": ["layer1.0.conv1.weight"]})"), 0u, nullptr);
}

// A frozen weight is one whose rate is 0, but for the work: all others get the same bits, and its
// gradient is computed by no node.
TEST_F(FineTuningTest, FrozenWeightsStay) {
  const auto frozen = resnet50(5), still = resnet50(5);
  load(frozen.get(), "");
  load(still.get(), "");
  const auto before = all_bits(frozen.get());
  const std::string parts = R"("match": ["conv1.*", "bn1.*", "layer1.*", "layer3.1.conv2.*"])";
  const auto a = trainer_of(frozen.get(), "{" + parts + R"(, "frozen": true})");
  const auto b = trainer_of(still.get(), "{" + parts + R"(, "lr_scale": 0})");
  train(a.get(), 3);
  train(b.get(), 3);
  const auto after = all_bits(frozen.get());
  EXPECT_EQ(after, all_bits(still.get()));
  const auto is_frozen = [](const std::string& name) {
    return name.starts_with("conv1.") || name.starts_with("bn1.") || name.starts_with("layer1.") ||
           name.starts_with("layer3.1.conv2.");
  };
  for (const auto& [name, now] : after) EXPECT_EQ(now == before.at(name), is_frozen(name)) << name;

  const auto described = report(assay_trainer_report, a.get());
  std::set<std::string> rows;
  for (const auto& row : at(described, "groups").list_value().values())
    rows.insert(at(row.struct_value(), "name").string_value());
  for (const auto& [name, ignored] : before)
    EXPECT_EQ(rows.contains(name), !is_frozen(name)) << name;
  const auto nodes = [](const google::protobuf::Struct& of) {
    return at(of, "plan").list_value().values_size();
  };
  EXPECT_LT(nodes(described), nodes(report(assay_trainer_report, b.get())));

  // There are tensors of them, in which nothing is kept.
  for (const int32_t kind : {ASSAY_KIND_GRADIENT, ASSAY_KIND_MOMENT1}) {
    for (const auto& [name, now] : all_bits(frozen.get(), kind))
      EXPECT_EQ(std::ranges::all_of(now, [](std::byte byte) { return byte == std::byte{}; }),
                is_frozen(name))
          << name;
  }
  // Averages of what does not change are what it is, and predictions take them.
  for (const auto& [name, average] : all_bits(frozen.get(), ASSAY_KIND_EMA))
    EXPECT_EQ(average == before.at(name), is_frozen(name)) << name;
  EXPECT_NE(logits(frozen.get(), R"({"use_ema": true})"), logits(frozen.get()));
}

TEST_F(FineTuningTest, TheHeadAlone) {
  const auto model = resnet50(5);
  load(model.get(), "");
  const auto before = all_bits(model.get());
  const auto trainer = trainer_of(model.get(), R"({"match": ["*"], "frozen": true},
                                 {"match": ["fc.*"], "frozen": false, "lr_scale": 2})");
  train(trainer.get(), 2);
  for (const auto& [name, now] : all_bits(model.get()))
    EXPECT_EQ(now == before.at(name), !name.starts_with("fc.")) << name;
}

TEST_F(FineTuningTest, SomethingMustBeTrained) {
  const auto model = resnet50(5);
  const assay_trainer_options options{
      .struct_size = sizeof options, .batch_size = kImages, .learning_rate = 0.05};
  assay_trainer* trainer = nullptr;
  const Outcome outcome =
      call(assay_trainer_create, model.get(), &options,
           text(R"({"optimizer": {"name": "sgd", "group": [{"match": ["*"], "frozen": true}]}})"),
           &trainer);
  EXPECT_EQ(outcome.status, ASSAY_E_INVALID);
  EXPECT_EQ(outcome.argument, "optimizer.group");
}

}  // namespace
}  // namespace assay::test
