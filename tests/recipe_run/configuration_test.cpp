// What the engine is told: every field of a recipe that reaches it, and refusals of those that
// cannot.
#include "tools/recipe_run/engine/configuration.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "tools/recipe_run/base/error.h"

namespace reciperun {
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
    hparam { key: "batch_norm" value: "true" } hparam { key: "size" value: "28x28" } hparam { key: "odd" value: "[1, oops" } })");
  EXPECT_EQ(
      model_config(recipe.model()),
      R"({"batch_norm":true,"dropout":0.5,"image":[28, 28, 1],"odd":"[1, oops","size":"28x28","stem":"cifar"})");
}

TEST(TrainerConfig, SgdWithGroupsWarmUpAndEndRate) {
  const v1::Recipe recipe = recipe_of(R"(
    training { accumulate: 2 batch_per_device: 128 label_smoothing: 0.1 clip_global_norm: 1
      optimizer { name: "sgd" lr: 0.1 lr_rule: "per_256_global_batch" momentum: 0.9 nesterov: true weight_decay: 0.0005
                  no_decay: "bn" no_decay: "bias" }
      schedule { kind: "cosine" warmup: 1.5 warmup_unit: "epoch" end_lr: 0.001 } }
    numerics { compute: AMP_BF16 loss_scale: "dynamic:32768/2000" })");
  TrainerSetup setup;
  setup.batch = 128;
  setup.eval_batch = 250;
  setup.steps_per_epoch = 10;
  setup.total_steps = 300;
  setup.seed = 7;
  setup.variables = {{"conv.weight", 4}, {"bn.weight", 1}, {"bn.bias", 1}, {"fc.bias", 1}};
  const std::string json = trainer_config(recipe, setup);
  for (const char* part : {R"("name":"sgd","learning_rate":0.1)", R"("nesterov":true)",
                           R"("momentum_convention":"pytorch")",
                           R"("match":["bn.weight","bn.bias","fc.bias"],"weight_decay":0)",
                           R"("warmup_steps":15)", R"("total_steps":300)", R"("end_factor":0.01)",
                           R"("precision":"amp-bf16")", R"("accumulate":2)", R"("clip_norm":1)",
                           R"("seed":7)", R"("eval_batch_size":250)", R"("label_smoothing":0.1)",
                           R"("loss_scale":{"mode":"dynamic","initial":32768,"interval":2000})"}) {
    EXPECT_THAT(json, HasSubstr(part));
  }
}

TEST(TrainerConfig, AdamAndMilestones) {
  v1::Recipe recipe = recipe_of(R"(training { batch_per_device: 8
    optimizer { name: "adam" lr: 0.001 beta1: 0.9 epsilon: 1e-8 convention: "tensorflow" }
    schedule { kind: "step" milestone: [2, 3.5] factor: 0.1 } } numerics { compute: FP32 })");
  TrainerSetup setup;
  setup.batch = 8;
  setup.steps_per_epoch = 100;
  const std::string json = trainer_config(recipe, setup);
  EXPECT_THAT(json, HasSubstr(R"("epsilon_form":"tensorflow")"));
  EXPECT_THAT(json, HasSubstr(R"("boundaries":[200,350])"));
  EXPECT_THAT(json, Not(HasSubstr("momentum")));
  EXPECT_THAT(json, Not(HasSubstr("group")));
  recipe.mutable_training()->set_mixup_alpha(0.2);
  EXPECT_THAT(error_of([&] { trainer_config(recipe, setup); }), HasSubstr("training.mixup_alpha"));
  recipe.mutable_training()->clear_mixup_alpha();
  recipe.mutable_numerics()->set_loss_scale("sometimes");
  EXPECT_THAT(error_of([&] { trainer_config(recipe, setup); }), HasSubstr("numerics.loss_scale"));
}

TEST(LoaderConfig, TrainingAndEvaluation) {
  const v1::Recipe recipe = recipe_of("training { drop_last: true } io { workers: 3 prefetch: 2 }");
  EXPECT_EQ(
      loader_config(recipe, {128, 5, true}),
      R"({"batch_size":128,"seed":5,"order":"shuffled","last_batch":"drop","epochs":0,"workers":3,"prefetch":3})");
  EXPECT_THAT(loader_config(recipe, {250, 0, false}),
              HasSubstr(R"("order":"sequential","last_batch":"pad","epochs":1)"));
}

v1::DataRef data_of(const std::string& pipeline) {
  return recipe_of("data { id: \"d\" " + pipeline + " }").data(0);
}

TEST(TransformConfig, StagesInTheEnginesOrder) {
  EXPECT_EQ(
      transform_config(data_of(
          R"(pipeline { op: "random_crop" arg { key: "pad" value: "2" } } pipeline { op: "random_flip" }
      pipeline { op: "random_flip" arg { key: "axis" value: "vertical" } arg { key: "p" value: "0.1" } }
      pipeline { op: "scale" arg { key: "by" value: "0.25" } }
      pipeline { op: "normalize" arg { key: "mean" value: "0.5, 0.25" } arg { key: "std" value: "2" } })")),
      R"({"crop_padding":2,"flip_horizontal":0.5,"flip_vertical":0.1,"scale":0.25,"mean":[0.5,0.25],"stddev":[2]})");
  EXPECT_EQ(transform_config(data_of("")), "{}");
}

TEST(TransformConfig, Refusals) {
  const auto refused = [](const std::string& pipeline) {
    return error_of([&] { transform_config(data_of(pipeline)); });
  };
  EXPECT_THAT(refused(R"(pipeline { op: "scale" } pipeline { op: "random_flip" })"),
              HasSubstr("random_flip cannot stand after scale"));
  EXPECT_THAT(refused(R"(pipeline { op: "blur" })"), HasSubstr("there is no stage 'blur'"));
  EXPECT_THAT(refused(R"(pipeline { op: "scale" arg { key: "bye" value: "1" } })"),
              HasSubstr("it takes: by"));
  EXPECT_THAT(refused(R"(pipeline { op: "scale" arg { key: "by" value: "half" } })"),
              HasSubstr("'half' is not a number"));
  EXPECT_THAT(refused(R"(pipeline { op: "random_flip" arg { key: "axis" value: "both" } })"),
              HasSubstr("neither"));
  EXPECT_THAT(refused("range { first: 1 }"), HasSubstr("whole splits"));
}

TEST(Steps, FromEpochsOrSteps) {
  v1::Training training;
  training.set_epochs(2.5);
  EXPECT_EQ(total_steps(training, 468), 1170);
  training.set_steps(77);
  EXPECT_EQ(total_steps(training, 468), 77);
}

}  // namespace
}  // namespace reciperun
