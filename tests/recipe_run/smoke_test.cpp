// What --smoke makes of recipes.
#include "tools/recipe_run/run/smoke.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/recipe_run/recipe/facts.h"
#include "tools/recipe_run/recipe/load.h"
#include "tools/recipe_run/util/error.h"
#include "tools/recipe_run/util/file.h"

namespace reciperun {
namespace {

using ::testing::HasSubstr;

const fs::path kRoot = fs::path(ASSAY_SOURCE_DIR) / "recipes";

ResolvedRecipe smoked(const std::string& id) {
  return load_recipe({kRoot, id}, smoke_sets(load_recipe({kRoot, id}).recipe));
}

TEST(Smoke, LeavesAFewStepsUnderTheRecipesSchedule) {
  const ResolvedRecipe resolved = smoked("fashion_mnist/resnet18");
  const v1::Training& training = resolved.recipe.training();
  EXPECT_EQ(training.steps(), 4u);
  EXPECT_EQ(training.batch_per_device(), 4u);
  EXPECT_EQ(training.schedule().span(), 30);
  EXPECT_EQ(training.schedule().warmup(), 1);
  EXPECT_EQ(training.optimizer().lr(), 0.1);
  EXPECT_EQ(resolved.recipe.trials().count(), 1u);
  EXPECT_EQ(resolved.recipe.evaluation().batch(), 4u);
  for (const v1::DataRef& data : resolved.recipe.data()) EXPECT_EQ(data.expect_samples(), 0u);
  EXPECT_THAT(resolved.modified_reason(), HasSubstr("training.steps"));
}

TEST(Smoke, StaysOnThisMachine) {
  v1::Recipe recipe;
  recipe.mutable_training()->set_epochs(2.5);
  recipe.mutable_training()->mutable_schedule()->set_kind("cosine");
  recipe.mutable_training()->set_accumulate(8);
  recipe.mutable_training()->set_batch_per_device(2);
  recipe.mutable_trials()->set_count(3);
  recipe.mutable_numerics()->set_compute(v1::Numerics::AMP_FP16);
  recipe.mutable_topology()->set_nodes(2);
  recipe.mutable_topology()->set_devices_per_node(8);
  EXPECT_THAT(smoke_sets(recipe),
              testing::ElementsAre(
                  "training.schedule.span=2.5", "training.steps=4", "training.batch_per_device=2",
                  "training.accumulate=1", "evaluation.when=end", "evaluation.batch=4",
                  "evaluation.batches=4", "trials.count=1", "numerics.compute=AMP_BF16",
                  "topology.nodes=1", "topology.devices_per_node=1"));
}

// Steps that the devices share are still four for each.
TEST(Smoke, TakesTheDevicesThatAreThere) {
  for (const char* id : {"unet_medical/dgx1_fp32_8gpu", "fashion_mnist/cnn_2conv_bn"}) {
    const RecipeFile file{kRoot, id};
    const v1::Recipe whole = load_recipe(file).recipe;
    for (const uint32_t devices : {2u, 8u}) {
      const v1::Recipe recipe = load_recipe(file, smoke_sets(whole, "cpu", devices)).recipe;
      EXPECT_EQ(devices_of(recipe), devices);
      EXPECT_EQ(recipe.topology().parallel(), "data");
      EXPECT_EQ(recipe.training().steps(),
                whole.training().steps_divided_by_devices() ? 4 * devices : 4);
    }
  }
}

TEST(Smoke, ShortensEveryPhase) {
  const v1::Recipe recipe = smoked("electra_base/pretraining_dgx1_amp").recipe;
  for (const v1::Phase& phase : recipe.training().phase()) {
    EXPECT_EQ(phase.training().steps(), 2u);
    EXPECT_EQ(phase.training().schedule().warmup(), 1);
    EXPECT_EQ(phase.training().batch_per_device(), 4u);
    EXPECT_EQ(phase.training().accumulate(), 1u);
  }
}

TEST(Smoke, BeginsFromScratchWithoutTheWeights) {
  EXPECT_EQ(smoked("electra_base/squad11_dgx1_fp32_1gpu").recipe.model().pretrained(), "");
}

// A span means nothing to a schedule that is not laid out over the training.
TEST(Smoke, LeavesSchedulesWithoutALengthAlone) {
  v1::Recipe recipe;
  recipe.mutable_training()->set_epochs(2.5);
  recipe.mutable_training()->mutable_schedule()->set_kind("step");
  recipe.mutable_trials()->set_count(1);
  EXPECT_THAT(smoke_sets(recipe), testing::Not(testing::Contains(HasSubstr("span"))));
}

TEST(Smoke, EvaluatesInThePartsOfTheRecipesDevices) {
  const v1::Recipe recipe = smoked("resnet50_v15/dgx1_fp32_8gpu_90ep").recipe;
  EXPECT_EQ(recipe.topology().devices_per_node(), 1u);
  EXPECT_EQ(recipe.evaluation().arg().at("shards"), "8");
}

TEST(Smoke, KeepsThePrecisionOnAGpu) {
  v1::Recipe recipe;
  recipe.mutable_training()->set_steps(10);
  recipe.mutable_trials()->set_count(1);
  recipe.mutable_numerics()->set_compute(v1::Numerics::TF32);
  EXPECT_THAT(smoke_sets(recipe), testing::Contains("numerics.compute=FP32"));
  EXPECT_THAT(smoke_sets(recipe, "cuda:0"),
              testing::Not(testing::Contains("numerics.compute=FP32")));
}

TEST(Smoke, MeasuresAFewStepsOfWhatOnlyMeasures) {
  const ResolvedRecipe resolved = smoked("unet_medical/dgx1_fp32_speed");
  EXPECT_LE(resolved.recipe.training().batch_per_device(), 4u);
  for (const v1::Bench& bench : resolved.recipe.bench()) {
    EXPECT_EQ(bench.repeats(), 1u);
    EXPECT_LE(bench.measure_steps(), 8u);
    ASSERT_EQ(bench.batch_size(), 1);
    EXPECT_LE(bench.batch(0), 4u);
    ASSERT_EQ(bench.devices_size(), 1);
    EXPECT_EQ(bench.devices(0), 1u);
  }
  EXPECT_THAT(resolved.modified_reason(), HasSubstr("measure_steps"));
}

TEST(Smoke, RefusesWhatNeitherTrainsNorMeasures) {
  v1::Recipe recipe;
  recipe.set_id("nothing");
  EXPECT_THROW(smoke_sets(recipe), Error);
  recipe.mutable_training()->set_steps(10);  // but no trials
  EXPECT_THROW(smoke_sets(recipe), Error);
}

}  // namespace
}  // namespace reciperun
