// The published U-Net's recipes, bases laid under them: what the scripts really did, where options,
// text and habit suggest something else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/recipe_run/assay/configuration.h"
#include "tools/recipe_run/assay/folds.h"
#include "tools/recipe_run/assay/pipeline.h"
#include "tools/recipe_run/recipe/facts.h"
#include "tools/recipe_run/recipe/load.h"
#include "tools/recipe_run/util/file.h"

namespace reciperun {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

v1::Recipe recipe(const std::string& name) {
  return load_recipe({fs::path(ASSAY_SOURCE_DIR) / "recipes", "unet_medical/" + name}).recipe;
}

std::vector<std::string> names(const std::string& suffix) {
  std::vector<std::string> out;
  for (const char* machine : {"dgx_a100_tf32", "dgx_a100_amp", "dgx1_fp32", "dgx1_amp"})
    out.push_back(machine + suffix);
  return out;
}

std::vector<std::string> trained() {
  std::vector<std::string> out = names("_1gpu");
  for (const std::string& name : names("_8gpu")) out.push_back(name);
  return out;
}

const v1::DataRef& data(const v1::Recipe& recipe, const std::string& id) {
  for (const v1::DataRef& data : recipe.data()) {
    if (data.id() == id) return data;
  }
  ADD_FAILURE() << "no data " << id;
  return recipe.data(0);
}

// 6,400 steps divided by the devices; the same rate everywhere; nothing that an option offers and
// no script asks for.
TEST(UnetRecipes, TrainAsTheScriptsDid) {
  for (const std::string& name : trained()) {
    SCOPED_TRACE(name);
    const v1::Recipe unet = recipe(name);
    const uint32_t devices = devices_of(unet);
    EXPECT_EQ(devices, name.ends_with("8gpu") ? 8u : 1u);
    const engine::Length length = engine::training_length(unet, 24 / devices, devices);
    EXPECT_EQ(length.total_steps, 6400 / devices);
    EXPECT_EQ(unet.training().batch_per_device(), 8u);
    const std::string config = engine::trainer_config(unet, length, 0, 0, 0, devices);
    EXPECT_THAT(config, HasSubstr(R"({"name":"adam","learning_rate":0.0001,"beta1":0.9,)"
                                  R"("beta2":0.999,"epsilon":1e-8,"epsilon_form":"tensorflow",)"
                                  R"("weight_decay":0,"clip_norm":0,"ema_decay":0})"));
    EXPECT_THAT(config, HasSubstr(R"("schedule":{"name":"constant","warmup_steps":0})"));
    EXPECT_THAT(config, AllOf(HasSubstr(R"("batch_size":8,"eval_batch_size":8)"),
                              HasSubstr("\"accumulate\":" + std::to_string(devices)),
                              HasSubstr(R"("label_smoothing":0)"), Not(HasSubstr("mixup"))));
    EXPECT_EQ(unet.training().clip_variable_norm(), 0);
  }
}

TEST(UnetRecipes, Precisions) {
  for (const std::string& name : trained()) {
    const v1::Recipe unet = recipe(name);
    const std::string config = engine::trainer_config(unet, {1, 6400}, 0, 0, 0);
    const bool mixed = name.find("_amp_") != std::string::npos;
    EXPECT_EQ(engine::precision_name(unet.numerics().compute()),
              mixed                                      ? "amp-fp16"
              : name.find("_tf32_") != std::string::npos ? "tf32"
                                                         : "fp32")
        << name;
    const std::string scale = R"("loss_scale":{"mode":"dynamic","initial":32768,"interval":2000})";
    EXPECT_EQ(config.find(scale) != std::string::npos, mixed) << name;
    EXPECT_EQ(unet.numerics().gradient_wire(), "fp32") << name;
  }
}

// The final weights once, on all six slices in one batch: the last batch of fewer would weigh more.
TEST(UnetRecipes, EvaluateTheLastWeightsInOneBatch) {
  for (const std::string& name : trained()) {
    const v1::Recipe unet = recipe(name);
    EXPECT_EQ(unet.evaluation().when(), "end") << name;
    EXPECT_EQ(unet.evaluation().select(), v1::Evaluation::MEAN_OVER_FOLDS) << name;
    EXPECT_EQ(unet.evaluation().metric(0), "dice") << name;
    EXPECT_EQ(engine::evaluation_batch(unet), 8) << name;
    EXPECT_EQ(unet.evaluation().batches(), 0u) << name;
    const v1::DataRef& validation = engine::evaluation_data(unet);
    EXPECT_EQ(engine::fold_records(validation.folds(), 30, 0).held_out.size(), 6u) << name;
    EXPECT_EQ(engine::transform_config(validation),
              R"({"scale":0.00784313725490196,"offset":-1,"size":388,"padded":572})")
        << name;
  }
}

TEST(UnetRecipes, FoldsSeedsAndStream) {
  for (const std::string& name : trained()) {
    const v1::Recipe unet = recipe(name);
    for (uint64_t trial = 0; trial < 5; ++trial) {
      EXPECT_EQ(unet.trials().seed(static_cast<int>(trial)), trial) << name;
      EXPECT_EQ(trial_part(unet, trial).fold, trial) << name;
      EXPECT_EQ(trial_part(unet, trial).seed, 0u) << name;
    }
    EXPECT_EQ(unet.trials().count(), 5u) << name;
    const v1::DataRef& train = engine::training_data(unet);
    EXPECT_NO_THROW(engine::require_disjoint_folds(train, engine::evaluation_data(unet))) << name;
    EXPECT_THAT(engine::fold_records(train.folds(), 30, 1).held_out,
                ElementsAre(4, 18, 19, 9, 7, 25))
        << name;  // turned by 5, not by 6
    const engine::LoaderConfig loader = engine::training_loader_config(unet, train, 0, 8);
    EXPECT_THAT(loader.loader, AllOf(HasSubstr(R"("order":"stream")"), HasSubstr(R"("buffer":24)")))
        << name;
    EXPECT_EQ(loader.transform,
              R"({"scale":0.00784313725490196,"offset":-1,"size":388,"padded":572,)"
              R"("flip_horizontal":0.5,"flip_vertical":0.5,"max_cut":0.3,"max_brightness":0.2,)"
              R"("clip":[-1,1]})")
        << name;
  }
}

TEST(UnetRecipes, TheModelIsThePublishedOne) {
  for (const std::string& name : trained()) {
    const v1::Recipe unet = recipe(name);
    EXPECT_EQ(unet.model().expect_parameters(), 34512258u) << name;
    EXPECT_EQ(engine::model_config(unet.model()), "{}") << name << ": the engine's defaults";
    EXPECT_EQ(unet.model().init(), "glorot_uniform") << name;
  }
}

// Steps 201 to 999 of 1,000 count, of all 30 slices with augmentation; of predictions those behind
// number 200, in full batches, on plain slices.
TEST(UnetRecipes, BenchesAreTimedAsPublished) {
  for (const std::string& name : names("_speed")) {
    SCOPED_TRACE(name);
    const v1::Recipe unet = recipe(name);
    EXPECT_EQ(unet.trials().count(), 0u);
    ASSERT_EQ(unet.bench_size(), 2);
    const v1::Bench &train = unet.bench(0), &infer = unet.bench(1);
    EXPECT_EQ(train.warmup_steps(), 201u);
    EXPECT_EQ(train.measure_steps(), 799u);
    EXPECT_THAT(train.batch(), ElementsAre(1u, 8u));
    EXPECT_THAT(train.devices(), ElementsAre(1u, 8u));
    EXPECT_EQ(infer.warmup_steps(), 201u);
    EXPECT_EQ(infer.measure_steps(), 201u);
    EXPECT_THAT(infer.batch(), ElementsAre(1u, 2u, 4u, 8u, 16u));
    for (const v1::Bench& bench : unet.bench()) {
      EXPECT_EQ(bench.rate(), v1::Bench::MEAN_OF_STEP_RATES);
      EXPECT_EQ(bench.input(), "real");
      EXPECT_EQ(bench.timing_span(), "load+compute");
    }
    EXPECT_THAT(engine::transform_config(engine::training_data(unet)), HasSubstr("max_cut"));
    EXPECT_EQ(engine::bench_data(unet).id(), "test");
    EXPECT_EQ(engine::transform_config(engine::bench_data(unet)),
              engine::transform_config(data(unet, "validation")));
  }
}

TEST(UnetRecipes, TheReducedOneIsNotHeldAgainstThePublishedValue) {
  const v1::Recipe reduced = recipe("reduced");
  EXPECT_EQ(reduced.expect(0).single().v(), 0.8910);
  int declared = 0;
  for (const v1::Deviation& deviation : reduced.deviation()) declared += deviation.not_comparable();
  EXPECT_EQ(declared, 2);
  for (const std::string& name : trained()) {
    const v1::Recipe unet = recipe(name);
    for (const v1::Deviation& deviation : unet.deviation())
      EXPECT_FALSE(deviation.not_comparable()) << name << " " << deviation.path();
  }
}

}  // namespace
}  // namespace reciperun
