// What the engine is told: every field of a recipe that reaches it, and refusals of those that
// cannot.
#include "tools/recipe_run/assay/configuration.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "tools/recipe_run/assay/pipeline.h"
#include "tools/recipe_run/util/error.h"

namespace reciperun::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::Recipe recipe_of(const std::string& text) {
  v1::Recipe recipe;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &recipe)) << text;
  return recipe;
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), Exit::kUsage);
    return std::string(error.what()) + " | " + error.hint();
  }
  return "no error";
}

TEST(ModelConfig, KeepsJsonAndQuotesTheRest) {
  const v1::Recipe recipe = recipe_of(R"(model {
    hparam { key: "image" value: "[28, 28, 1]" } hparam { key: "dropout" value: "0.5" } hparam { key: "stem" value: "cifar" }
    hparam { key: "batch_norm" value: "true" } })");
  const std::string json = model_config(recipe.model());
  for (const char* part : {R"("image":[28, 28, 1])", R"("dropout":0.5)", R"("stem":"cifar")",
                           R"("batch_norm":true)"}) {
    EXPECT_THAT(json, HasSubstr(part));
  }
}

TEST(ModelConfig, ATextInQuotesIsNoNumber) {
  const v1::Recipe recipe =
      recipe_of(R"(model { arch: "electra_base_qa" hparam { key: "version" value: "\"2.0\"" } })");
  EXPECT_EQ(model_config(recipe.model()), R"({"version":"2.0"})");
}

TEST(TrainerConfig, SgdWithGroupsWarmUpAndEndRate) {
  const v1::Recipe recipe = recipe_of(R"(
    training { epochs: 30 accumulate: 2 batch_per_device: 128 label_smoothing: 0.1 clip_global_norm: 1
      clip_variable_norm: 10 ema_decay: 0.999 ema_warmup: true
      optimizer { name: "sgd" lr: 0.1 lr_rule: "absolute" momentum: 0.9 nesterov: true weight_decay: 0.0005
                  no_decay: "bn" no_decay: "bias" }
      schedule { kind: "cosine" warmup: 1.5 warmup_unit: "epoch" end_lr: 0.001 } }
    evaluation { batch: 250 } numerics { compute: AMP_BF16 loss_scale: "dynamic:32768/2000" })");
  const std::string json = trainer_config(recipe, {10, 300}, 0, 7, 0);
  for (const char* part :
       {R"("name":"sgd","learning_rate":0.1)", R"("nesterov":true)",
        R"("momentum_convention":"pytorch")",
        R"("group":[{"kind":["batch_norm","bias"],"weight_decay":0}])", R"("warmup_steps":15)",
        R"("total_steps":300)", R"("end_factor":0.01)", R"("precision":"amp-bf16")",
        R"("accumulate":2)", R"("clip_norm":1)",
        R"("clip_each_norm":10,"ema_decay":0.999,"ema_warmup":true,"ema_statistics":true)",
        R"("seed":7)", R"("eval_batch_size":250)", R"("label_smoothing":0.1)",
        R"("loss_scale":{"mode":"dynamic","initial":32768,"interval":2000})"}) {
    EXPECT_THAT(json, HasSubstr(part));
  }
}

TEST(TrainerConfig, AdamMilestonesAndRefusals) {
  v1::Recipe recipe = recipe_of(R"(training { steps: 9 batch_per_device: 8
    optimizer { name: "adam" lr: 0.001 beta1: 0.9 epsilon: 1e-8 convention: "tensorflow" }
    schedule { kind: "step" milestone: [2, 3.5] factor: 0.1 } } numerics { compute: FP32 })");
  const std::string json = trainer_config(recipe, {100, 500}, 0, 1, 0);
  EXPECT_THAT(json, HasSubstr(R"("epsilon_form":"tensorflow")"));
  EXPECT_THAT(json, HasSubstr(R"("boundaries":[200,350])"));
  EXPECT_THAT(json, Not(HasSubstr("momentum")));
  EXPECT_THAT(json, Not(HasSubstr("group")));
  recipe.mutable_numerics()->set_loss_scale("sometimes");
  EXPECT_THAT(error_of([&] {
                trainer_config(recipe, {100, 500}, 0, 1, 0);
              }),
              HasSubstr("numerics.loss_scale"));
  recipe.mutable_numerics()->clear_loss_scale();
  recipe.mutable_training()->mutable_optimizer()->set_no_bias_correction(true);
  EXPECT_THAT(trainer_config(recipe, {100, 500}, 0, 1, 0), HasSubstr(R"("bias_correction":false)"));
  recipe.mutable_training()->add_loss();
  EXPECT_THAT(error_of([&] {
                trainer_config(recipe, {100, 500}, 0, 1, 0);
              }),
              HasSubstr("training.loss"));
}

TEST(TrainerConfig, ExemptionsFromDecayAndTrustRatioAreGroups) {
  const v1::Recipe recipe = recipe_of(R"(training { steps: 9 batch_per_device: 8
    optimizer { name: "lamb" lr: 0.006 weight_decay: 0.01 no_decay: "layer_norm" no_decay: "scalar"
                no_trust_ratio: "layer_norm" no_trust_ratio: "bias" } })");
  EXPECT_THAT(trainer_config(recipe, {10, 9}, 0, 1, 0),
              HasSubstr(R"("group":[{"kind":["layer_norm","scalar"],"weight_decay":0},)"
                        R"({"kind":["layer_norm","bias"],"no_trust_ratio":true}])"));
}

// All that the engine is told of a training.
std::string told(const v1::Recipe& recipe) {
  const Length length = training_length(recipe, 1000);
  const auto loader = training_loader_config(recipe, recipe.data(0), 1, 8);
  return trainer_config(recipe, length, 2, 1, 0) + loader.loader + loader.transform +
         std::to_string(length.total_steps);
}

// Gives a field another value, or an element more.
void change(google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field) {
  using Field = google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& r = *message.GetReflection();
  const bool many = field.is_repeated();
  switch (field.cpp_type()) {
    case Field::CPPTYPE_STRING: {
      const std::string value = field.name() == "convention"   ? "tensorflow"
                                : field.name() == "lr_rule"    ? "per_256_global_batch"
                                : field.name() == "loss_scale" ? "static:64"
                                : many                         ? "bias"
                                                               : "adamw";
      return many ? r.AddString(&message, &field, value) : r.SetString(&message, &field, value);
    }
    case Field::CPPTYPE_DOUBLE:
      return many
                 ? r.AddDouble(&message, &field, 0.25)
                 : r.SetDouble(&message, &field, r.GetDouble(message, &field) == 0.25 ? 0.5 : 0.25);
    case Field::CPPTYPE_UINT32:
      return r.SetUInt32(&message, &field, r.GetUInt32(message, &field) + 2);
    case Field::CPPTYPE_UINT64:
      return r.SetUInt64(&message, &field, r.GetUInt64(message, &field) + 2);
    case Field::CPPTYPE_BOOL:
      return r.SetBool(&message, &field, !r.GetBool(message, &field));
    case Field::CPPTYPE_ENUM:
      return r.SetEnumValue(&message, &field, v1::Numerics::AMP_BF16);
    default:
      if (many) r.AddMessage(&message, &field);
  }
}

// Whatever a recipe says about a training reaches the engine or is refused.
TEST(TrainerConfig, NothingIsDropped) {
  for (const char* name : {"sgd", "adam", "adamw", "lamb"}) {
    for (const char* kind : {"constant", "step", "polynomial", "linear", "cosine", "exponential"}) {
      v1::Recipe recipe = recipe_of(R"(data { id: "train" role: "train" } numerics { compute: FP32 }
        training { steps: 90 batch_per_device: 8 optimizer { lr: 0.1 lr_rule: "absolute" weight_decay: 0.1 }
                   schedule { warmup: 4 warmup_unit: "step" } })");
      recipe.mutable_training()->mutable_optimizer()->set_name(name);
      recipe.mutable_training()->mutable_schedule()->set_kind(kind);
      const std::string before = told(recipe);
      const auto expect_told = [&](auto part) {
        const auto* type = part(recipe)->GetDescriptor();
        for (int i = 0; i < type->field_count(); ++i) {
          const auto& field = *type->field(i);
          // Read by the runner; phases become recipes of their own (phases_of), and the messages
          // below have their own turn.
          static const std::set<std::string> kElsewhere = {"name",
                                                           "phase",
                                                           "kind",
                                                           "warmup_unit",
                                                           "checkpoint_every_steps",
                                                           "steps_divided_by_devices",
                                                           "gradient_wire",
                                                           "optimizer",
                                                           "schedule"};
          if (kElsewhere.contains(field.name()) || field.options().GetExtension(v1::for_people))
            continue;
          v1::Recipe changed = recipe;
          change(*part(changed), field);
          std::string after;
          try {
            after = told(changed);
          } catch (const Error& error) {
            after = error.what();
          }
          EXPECT_NE(after, before) << name << ", " << kind << ": " << field.full_name();
        }
      };
      expect_told([](v1::Recipe& r) { return r.mutable_training(); });
      expect_told([](v1::Recipe& r) { return r.mutable_training()->mutable_optimizer(); });
      expect_told([](v1::Recipe& r) { return r.mutable_training()->mutable_schedule(); });
      expect_told([](v1::Recipe& r) { return r.mutable_numerics(); });
    }
  }
}

TEST(Offered, WhatNoConfigurationCarriesIsRefused) {
  v1::Recipe recipe = recipe_of(
      R"(evaluation { evaluator: "top1" evaluator_version: "1" arg { key: "shards" value: "2" } }
    numerics { gradient_wire: "bf16" })");
  require_offered(recipe, 1);  // one device sends nothing
  EXPECT_THAT(error_of([&] { require_offered(recipe, 8); }), HasSubstr("numerics.gradient_wire"));
  for (const char* wire : {"fp32", "fp16"}) {
    recipe.mutable_numerics()->set_gradient_wire(wire);
    require_offered(recipe, 8);
  }
  recipe.mutable_evaluation()->set_evaluator_version("2");
  EXPECT_THAT(error_of([&] { require_offered(recipe, 1); }), HasSubstr("evaluation.evaluator"));
  recipe.mutable_evaluation()->set_evaluator("mAP");
  EXPECT_THAT(error_of([&] { require_offered(recipe, 1); }), HasSubstr("'mAP'"));
  recipe.clear_evaluation();
  (*recipe.mutable_evaluation()->mutable_arg())["nms"] = "hard";
  EXPECT_THAT(error_of([&] { require_offered(recipe, 1); }), HasSubstr("evaluation.arg.nms"));
  v1::Bench bench;
  require_offered(bench);
  bench.set_allow_partial_batch(true);
  EXPECT_THAT(error_of([&] { require_offered(bench); }), HasSubstr("allow_partial_batch"));
  bench.clear_allow_partial_batch();
  (*bench.mutable_arg())["nms"] = "hard";
  EXPECT_THAT(error_of([&] { require_offered(bench); }), HasSubstr("arg"));
}

TEST(TrainerConfig, MixupAndAWarmUpThatStartsAnywhere) {
  v1::Recipe recipe = recipe_of(R"(training { steps: 9 batch_per_device: 192 mixup_alpha: 0.2
    optimizer { name: "sgd" lr: 0.256 lr_rule: "per_256_global_batch" momentum: 0.875 convention: "tensorflow" }
    schedule { kind: "cosine" warmup: 5 warmup_unit: "epoch" span: 90 } })");
  std::string json = trainer_config(recipe, {835, 9}, 0, 1, 0);
  for (const char* part :
       {R"("mixup_alpha":0.2)", R"("learning_rate":0.192)", R"("momentum_convention":"sutskever")",
        R"("warmup_steps":4175)", R"("total_steps":75150)"}) {
    EXPECT_THAT(json, HasSubstr(part));
  }
  EXPECT_THAT(json, HasSubstr(R"("warmup_start":0,)"));
  recipe.mutable_training()->mutable_optimizer()->set_convention("pytorch");
  EXPECT_THAT(trainer_config(recipe, {835, 9}, 0, 1, 0), Not(HasSubstr("warmup_start")));
  recipe.mutable_training()->mutable_schedule()->set_start_lr(0.048);
  EXPECT_THAT(trainer_config(recipe, {835, 9}, 0, 1, 0), HasSubstr(R"("warmup_start":0.25)"));
}

// The published factors of ELECTRA-base: 0.8 to the power of the layers above, heads two above the
// last block.
TEST(TrainerConfig, RatesByLayer) {
  v1::Recipe recipe = recipe_of(R"(training { steps: 9 batch_per_device: 8
    optimizer { name: "adamw" lr: 0.0008 weight_decay: 0.01 no_decay: "bias" layerwise_lr_decay: 0.8 } })");
  const std::string json = trainer_config(recipe, {10, 9}, 12, 1, 0);
  EXPECT_THAT(json, HasSubstr(R"("group":[{"match":["*embeddings.*"],"lr_scale":0.0439804651)"));
  EXPECT_THAT(json, HasSubstr(R"({"match":["*encoder.layer.0.*"],"lr_scale":0.0549755813)"));
  EXPECT_THAT(json, HasSubstr(R"({"match":["*encoder.layer.11.*"],"lr_scale":0.64)"));
  EXPECT_THAT(json, HasSubstr(R"({"kind":["bias"],"weight_decay":0}])"));
  EXPECT_THAT(error_of([&] {
                trainer_config(recipe, {10, 9}, 0, 1, 0);
              }),
              HasSubstr("layerwise_lr_decay means nothing"));
  recipe.mutable_training()->mutable_optimizer()->set_layerwise_lr_decay(1.5);
  EXPECT_THAT(error_of([&] {
                trainer_config(recipe, {10, 9}, 12, 1, 0);
              }),
              HasSubstr("layerwise_lr_decay must be"));
}

TEST(TrainerConfig, GroupsOfParameters) {
  v1::Recipe recipe = recipe_of(R"(training { steps: 9 batch_per_device: 8
    optimizer { name: "sgd" lr: 0.1 group { match: "*" frozen: true }
      group { match: "layer4.*" match: "fc.*" frozen: false lr_scale: 0.5 } } })");
  EXPECT_THAT(trainer_config(recipe, {10, 9}, 0, 1, 0),
              HasSubstr(R"("group":[{"match":["*"],"frozen":true},)"
                        R"({"match":["layer4.*","fc.*"],"frozen":false,"lr_scale":0.5}])"));
  recipe.mutable_training()->mutable_optimizer()->mutable_group(1)->clear_match();
  EXPECT_THAT(error_of([&] {
                trainer_config(recipe, {10, 9}, 0, 1, 0);
              }),
              HasSubstr("group needs match"));
}

// As ELECTRA's published loop has it: 0.05 of 693 steps are 34.65, and 34 of them warm up.
TEST(TrainerConfig, AFractionOfWarmUpIsRoundedDown) {
  const v1::Recipe recipe = recipe_of(R"(training { steps: 693 batch_per_device: 32
    optimizer { name: "adamw" lr: 0.0008 convention: "tensorflow" }
    schedule { kind: "linear" warmup: 0.05 warmup_unit: "fraction" } })");
  EXPECT_THAT(trainer_config(recipe, {100, 693}, 0, 1, 32), HasSubstr(R"("warmup_steps":34,)"));
}

TEST(TrainingLength, EpochsStepsAndIncompleteBatches) {
  v1::Recipe recipe = recipe_of("training { epochs: 2.5 batch_per_device: 128 drop_last: true }");
  EXPECT_EQ(training_length(recipe, 60000).steps_per_epoch, 468);
  EXPECT_EQ(training_length(recipe, 60000).total_steps, 1170);
  recipe.mutable_training()->set_drop_last(false);
  EXPECT_EQ(training_length(recipe, 60000).steps_per_epoch, 469);
  recipe.mutable_training()->set_steps(77);
  EXPECT_EQ(training_length(recipe, 60000).total_steps, 77);
  recipe.mutable_training()->set_drop_last(true);
  EXPECT_THAT(error_of([&] { training_length(recipe, 100); }), HasSubstr("128"));
  // A nominal epoch ends with a whole step.
  recipe.mutable_training()->set_epochs(2.5);
  v1::DataRef& data = *recipe.add_data();
  data.set_role("train"), data.set_nominal_epoch_samples(1000);
  EXPECT_EQ(training_length(recipe, 60000).steps_per_epoch, 8);
  EXPECT_EQ(training_length(recipe, 60000).total_steps, 20);
}

v1::Recipe with_pipeline(const std::string& pipeline) {
  return recipe_of("training { batch_per_device: 8 } data { id: \"d\" role: \"train\" " + pipeline +
                   " }");
}

std::string transform_of(const std::string& pipeline) {
  const v1::Recipe recipe = with_pipeline(pipeline);
  return training_loader_config(recipe, recipe.data(0), 1, 8).transform;
}

// The engine refuses keys of another kind of schedule.
TEST(TrainerConfig, AConstantScheduleHasNoEnd) {
  const v1::Recipe recipe = recipe_of(R"(training { steps: 9 batch_per_device: 8
    optimizer { name: "sgd" lr: 0.1 } schedule { warmup: 2 warmup_unit: "step" } }
    numerics { compute: FP32 })");
  EXPECT_THAT(trainer_config(recipe, {100, 500}, 0, 1, 0),
              HasSubstr(R"("schedule":{"name":"constant","warmup_steps":2})"));
}

TEST(LoaderConfigTest, EpochsOfTrainingHoldWholeUpdates) {
  v1::Recipe recipe = with_pipeline("");
  recipe.mutable_training()->set_accumulate(4);
  recipe.mutable_training()->set_drop_last(true);
  const std::string loader = training_loader_config(recipe, recipe.data(0), 1, 8).loader;
  EXPECT_THAT(loader, HasSubstr(R"("accumulate":4)"));
  EXPECT_THAT(loader, HasSubstr(R"("last_batch":"drop")"));
}

TEST(LoaderConfigTest, StagesBecomeTheEnginesTransform) {
  EXPECT_EQ(
      transform_of(
          R"(pipeline { op: "random_crop" arg { key: "pad" value: "2" } } pipeline { op: "random_flip" }
      pipeline { op: "scale" arg { key: "by" value: "0.25" } }
      pipeline { op: "normalize" arg { key: "mean" value: "0.5" } arg { key: "std" value: "2" } })"),
      R"({"crop_padding":2,"flip_horizontal":0.5,"scale":0.25,"mean":[0.5],"stddev":[2]})");
  EXPECT_EQ(transform_of(""), "{}");
  EXPECT_EQ(
      transform_of(
          R"(pipeline { op: "normalize" arg { key: "mean" value: "[125.3, 123, 114]" } arg { key: "std" value: "[63,62.1 , 66.7]" } })"),
      R"({"mean":[125.3,123,114],"stddev":[63,62.1,66.7],"scale":1})");
}

// What a GPU does itself is taken from the loader.
TEST(LoaderConfigTest, PipelinesArePartedBetweenLoaderAndTrainer) {
  const auto raw_of = [](const std::string& pipeline) {
    return raw_pipeline(with_pipeline(pipeline).data(0));
  };
  const auto photographs = raw_of(
      R"(pipeline { op: "random_resized_crop" arg { key: "to" value: "[8, 8]" }
           arg { key: "area" value: "[0.08, 1]" } arg { key: "aspect" value: "[0.75, 1.25]" } }
         pipeline { op: "random_flip" }
         pipeline { op: "normalize" arg { key: "mean" value: "[1, 2, 3]" } arg { key: "std" value: "[4, 5, 6]" } }
         pipeline { op: "pad_channel" arg { key: "to" value: "4" } })");
  ASSERT_TRUE(photographs.has_value());
  EXPECT_EQ(photographs->transform,
            R"({"crop":"random","size":8,"min_area":0.08,"max_area":1,"min_aspect":0.75,)"
            R"("max_aspect":1.25,"flip_horizontal":0.5,"raw":true})");
  EXPECT_EQ(photographs->raw_images, R"({"mean":[1,2,3],"stddev":[4,5,6],"channels":3,"scale":1})");
  EXPECT_EQ(raw_of("")->transform, R"({"raw":true})");
  EXPECT_EQ(raw_of("")->raw_images, "{}");
  EXPECT_FALSE(raw_of(R"(pipeline { op: "random_rotation" arg { key: "degrees" value: "5" } })")
                   .has_value());
  EXPECT_THAT(error_of([&] { raw_of(R"(pipeline { op: "no_such" })"); }), HasSubstr("no_such"));
  const v1::Recipe recipe = recipe_of(R"(training { steps: 9 batch_per_device: 8
    optimizer { name: "sgd" lr: 0.1 } } numerics { compute: FP32 })");
  EXPECT_THAT(trainer_config(recipe, {100, 500}, 0, 1, 0, 1, photographs->raw_images),
              HasSubstr(R"("raw_images":{"mean":[1,2,3])"));
  EXPECT_THAT(trainer_config(recipe, {100, 500}, 0, 1, 0), Not(HasSubstr("raw_images")));
}

TEST(LoaderConfigTest, StagesOfPhotographs) {
  EXPECT_EQ(
      transform_of(
          R"(pipeline { op: "random_resized_crop" arg { key: "to" value: "[224, 224]" } arg { key: "area" value: "[0.08, 1]" }
                        arg { key: "aspect" value: "[0.75, 1.5]" } }
             pipeline { op: "random_flip" arg { key: "axis" value: "horizontal" } }
             pipeline { op: "normalize" arg { key: "mean" value: "127" } arg { key: "std" value: "58" } }
             pipeline { op: "pad_channel" arg { key: "to" value: "4" } })"),
      R"({"crop":"random","size":224,"min_area":0.08,"max_area":1,"min_aspect":0.75,"max_aspect":1.5,)"
      R"("flip_horizontal":0.5,"mean":[127],"stddev":[58],"channels":4,"scale":1})");
  EXPECT_EQ(transform_of(
                R"(pipeline { op: "resize_shorter" arg { key: "to" value: "256" } }
             pipeline { op: "center_crop" arg { key: "to" value: "[224, 224]" } })"),
            R"({"resize_shorter":256,"crop":"centre","size":224,"scale":1})");
}

TEST(LoaderConfigTest, RefusesIncompletePhotographSteps) {
  const auto refused = [](const std::string& pipeline) {
    return error_of([&] { transform_of(pipeline); });
  };
  EXPECT_THAT(refused(R"(pipeline { op: "resize_shorter" arg { key: "to" value: "256" } })"),
              HasSubstr("resize_shorter needs center_crop beside it"));
  EXPECT_THAT(refused(R"(pipeline { op: "center_crop" arg { key: "to" value: "[224, 224]" } })"),
              HasSubstr("center_crop needs resize_shorter beside it"));
  EXPECT_THAT(refused(R"(pipeline { op: "random_resized_crop" arg { key: "to" value: "[224, 200]" }
                                    arg { key: "area" value: "[0.08, 1]" } arg { key: "aspect" value: "[1, 1]" } })"),
              HasSubstr("to '[224, 200]' is not square"));
  EXPECT_THAT(
      refused(R"(pipeline { op: "random_resized_crop" arg { key: "to" value: "[224, 224]" } })"),
      HasSubstr("needs the argument 'area'"));
  EXPECT_THAT(
      refused(
          R"(pipeline { op: "normalize" arg { key: "mean" value: "[1, x]" } arg { key: "std" value: "1" } })"),
      HasSubstr("mean '[1, x]' is not a number or a list"));
}

TEST(LoaderConfigTest, RefusesWhatTheEngineWouldDoOtherwise) {
  const auto refused = [](const std::string& pipeline) {
    return error_of([&] { transform_of(pipeline); });
  };
  // A flip or a crop after normalisation pads with another value than one before it.
  EXPECT_THAT(
      refused(
          R"(pipeline { op: "scale" arg { key: "by" value: "1" } } pipeline { op: "random_flip" })"),
      HasSubstr("'random_flip' cannot stand after scale"));
  EXPECT_THAT(refused(R"(pipeline { op: "blur" })"), HasSubstr("'blur'"));
  EXPECT_THAT(refused(R"(pipeline { op: "scale" })"), HasSubstr("'by'"));
  EXPECT_THAT(refused(R"(pipeline { op: "scale" arg { key: "by" value: "half" } })"),
              HasSubstr("'half' is not a number"));
  EXPECT_THAT(refused(R"(pipeline { op: "random_flip" arg { key: "axis" value: "diagonal" } })"),
              HasSubstr("axis 'diagonal' is not understood"));
  EXPECT_THAT(refused("range { first: 1 }"), HasSubstr("range of what is timed is not offered"));
}

constexpr const char* kMicrographs = R"(
  data { id: "train" role: "train" lock: "isbi2012_em"
    pipeline { op: "shuffle_stream" arg { key: "buffer_batches" value: "3" } }
    pipeline { op: "scale" arg { key: "by" value: "0.0078125" } arg { key: "offset" value: "-1" } }
    pipeline { op: "resize" arg { key: "to" value: "[388, 388]" } arg { key: "filter" value: "bilinear_legacy" } }
    pipeline { op: "pad" arg { key: "to" value: "[572, 572]" } arg { key: "value" value: "0" } }
    pipeline { op: "random_flip" arg { key: "axis" value: "horizontal" } }
    pipeline { op: "random_flip" arg { key: "axis" value: "vertical" } }
    pipeline { op: "random_crop_and_resize" arg { key: "max_cut" value: "0.3" } }
    pipeline { op: "random_brightness" arg { key: "max_delta" value: "0.2" } }
    pipeline { op: "clip" arg { key: "to" value: "[-1, 1]" } } }
  training { steps: 6400 steps_divided_by_devices: true batch_per_device: 8
    optimizer { name: "adam" lr: 0.0001 convention: "tensorflow" } schedule { kind: "constant" } })";

TEST(Micrographs, PipelineAndStream) {
  const v1::Recipe recipe = recipe_of(kMicrographs);
  Share share{{2, 28, 13}, 2, 3};
  const LoaderConfig config = training_loader_config(recipe, recipe.data(0), 0, 8, share);
  EXPECT_EQ(config.transform,
            R"({"scale":0.0078125,"offset":-1,"size":388,"padded":572,"flip_horizontal":0.5,)"
            R"("flip_vertical":0.5,"max_cut":0.3,"max_brightness":0.2,"clip":[-1,1]})");
  for (const char* part : {R"("order":"stream")", R"("buffer":24)", R"("record":[2,28,13])",
                           R"("rank":2)", R"("world_size":3)"}) {
    EXPECT_THAT(config.loader, HasSubstr(part));
  }
}

TEST(Micrographs, StepsOfOtherOrdersAreRefused) {
  v1::Recipe recipe = recipe_of(kMicrographs);
  recipe.mutable_data(0)->mutable_pipeline()->SwapElements(2, 3);
  EXPECT_THAT(error_of([&] { training_loader_config(recipe, recipe.data(0), 0, 8); }),
              HasSubstr("the order is scale, resize, pad"));
  recipe = recipe_of(kMicrographs);
  (*recipe.mutable_data(0)->mutable_pipeline(2)->mutable_arg())["filter"] = "bilinear";
  EXPECT_THAT(error_of([&] { training_loader_config(recipe, recipe.data(0), 0, 8); }),
              HasSubstr("bilinear_legacy"));
  recipe = recipe_of(kMicrographs);
  (*recipe.mutable_data(0)->mutable_pipeline(3)->mutable_arg())["to"] = "[572, 570]";
  EXPECT_THAT(error_of([&] { training_loader_config(recipe, recipe.data(0), 0, 8); }),
              HasSubstr("square"));
}

// The engine has defaults for sizes and levels: a recipe that leaves a step out must not get them.
TEST(Micrographs, MissingStepsAreRefused) {
  const auto without = [](const std::string& op) {
    v1::Recipe recipe = recipe_of(kMicrographs);
    auto& pipeline = *recipe.mutable_data(0)->mutable_pipeline();
    for (int i = 0; i < pipeline.size(); ++i) {
      if (pipeline[i].op() == op) pipeline.DeleteSubrange(i, 1);
    }
    return error_of([&] { training_loader_config(recipe, recipe.data(0), 0, 8); });
  };
  for (const char* op : {"scale", "resize", "pad"})
    EXPECT_THAT(without(op), HasSubstr("data.train.pipeline has no step '" + std::string(op)));
  EXPECT_EQ(without("clip"), "no error");
}

TEST(Micrographs, SizesMustBeWholeNumbers) {
  const auto with = [](int stage, const char* name, const char* value) {
    v1::Recipe recipe = recipe_of(kMicrographs);
    (*recipe.mutable_data(0)->mutable_pipeline(stage)->mutable_arg())[name] = value;
    return error_of([&] { training_loader_config(recipe, recipe.data(0), 0, 8); });
  };
  for (const char* size : {"[388.5, 388.5]", "[1e300, 1e300]", "[-4, -4]", "[0, 0]"}) {
    EXPECT_THAT(with(2, "to", size), HasSubstr(std::string("data 'train': pipeline step 'resize': "
                                                           "to '") +
                                               size + "' is not a whole number"));
  }
  EXPECT_THAT(with(2, "to", "[nan, nan]"), HasSubstr("is not a number"));
  EXPECT_THAT(with(2, "to", "388"), HasSubstr("is not a list of two numbers"));
  EXPECT_THAT(with(1, "by", "inf"), HasSubstr("by 'inf' is not a number"));
  EXPECT_THAT(with(3, "value", "1"), HasSubstr("value '1' is not offered"));
  EXPECT_THAT(with(0, "buffer_batches", "-1"), HasSubstr("buffer_batches '-1'"));
  EXPECT_THAT(with(0, "buffer_batches", "1e300"), HasSubstr("buffer_batches '1e300'"));
}

// Eight devices share the steps; their batches make one update of the mean gradient at the same
// learning rate.
TEST(EmulatedDevices, StepsBatchesAndLearningRate) {
  v1::Recipe recipe = recipe_of(kMicrographs);
  EXPECT_EQ(training_length(recipe, 24, 1).total_steps, 6400);
  EXPECT_EQ(training_length(recipe, 3, 8).total_steps, 800);
  const Length length = training_length(recipe, 3, 8);
  const std::string json = trainer_config(recipe, length, 0, 0, 0, 8);
  EXPECT_THAT(json, HasSubstr(R"("accumulate":8)"));
  EXPECT_THAT(json, HasSubstr(R"("batch_size":8)"));
  EXPECT_THAT(json, HasSubstr(R"("learning_rate":0.0001)"));
  recipe.mutable_training()->mutable_optimizer()->set_lr_rule("per_256_global_batch");
  EXPECT_THAT(trainer_config(recipe, length, 0, 0, 0, 8), HasSubstr(R"("learning_rate":0.000025)"));
}

}  // namespace
}  // namespace reciperun::engine
