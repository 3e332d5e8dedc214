// EfficientDet-D0's published recipes, bases laid under them: the schedules that the scripts had.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/recipe_run/assay/configuration.h"
#include "tools/recipe_run/assay/driver.h"
#include "tools/recipe_run/recipe/facts.h"
#include "tools/recipe_run/recipe/load.h"
#include "tools/recipe_run/util/file.h"

namespace reciperun {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const fs::path kRecipes = fs::path(ASSAY_SOURCE_DIR) / "recipes";

struct Published {
  const char* name;
  int64_t steps_per_epoch, warmup, schedule, steps;
  const char* optimizer;
};

// An epoch is 120,000 images, and its last step a whole one.
TEST(DetectionRecipes, HaveThePublishedSchedules) {
  const Published published[] = {
      {"dgx_a100_tf32_8gpu", 145, 3625, 58000, 43500, R"("learning_rate":1.1,"momentum":0.93,)"},
      {"dgx_a100_amp_8gpu", 75, 1875, 30000, 22500, R"("learning_rate":2.2,"momentum":0.93,)"},
      {"dgx1_fp32_8gpu", 375, 1875, 112500, 112500, R"("learning_rate":0.4,"momentum":0.9,)"},
      {"dgx1_amp_8gpu", 235, 1175, 70500, 70500, R"("learning_rate":0.7,"momentum":0.9,)"},
      {"dgx1_fp32_32gpu", 94, 8460, 32900, 28200, R"("learning_rate":1,"momentum":0.95,)"},
      {"dgx1_amp_32gpu", 59, 5310, 20650, 17700, R"("learning_rate":1.5,"momentum":0.95,)"}};
  for (const Published& row : published) {
    SCOPED_TRACE(row.name);
    const v1::Recipe recipe =
        load_recipe({kRecipes, std::string("efficientdet_d0/") + row.name}).recipe;
    const uint32_t devices = devices_of(recipe);
    const engine::Length length = engine::training_length(recipe, 118287, devices);
    EXPECT_EQ(length.steps_per_epoch, row.steps_per_epoch);
    EXPECT_EQ(length.total_steps, row.steps);
    const std::string config = engine::trainer_config(recipe, length, 0, 0, 0, devices);
    EXPECT_THAT(config, AllOf(HasSubstr(row.optimizer), HasSubstr(R"("name":"cosine")"),
                              HasSubstr("\"warmup_steps\":" + std::to_string(row.warmup) + ","),
                              HasSubstr("\"total_steps\":" + std::to_string(row.schedule) + ",")));
  }
}

// Of every published row it can be said what would become of it.
TEST(DetectionRecipes, AreAllOffered) {
  const auto driver = make_assay_driver("cpu", 1);
  int checked = 0;
  for (const std::string& id : recipe_ids(kRecipes)) {
    if (!id.starts_with("efficientdet_d0/")) continue;
    const v1::Recipe recipe = load_recipe({kRecipes, id}).recipe;
    if (recipe.abstract()) continue;
    ASSERT_TRUE(driver->has_model(recipe)) << id;
    EXPECT_NO_THROW(driver->check_offered(recipe)) << id;
    ++checked;
  }
  EXPECT_EQ(checked, 12);
}

// Which file the backbone came from changes no row.
TEST(DetectionRecipes, NameTheirBackboneFreely) {
  const std::string digest(64, 'a');
  const ResolvedRecipe named = load_recipe({kRecipes, "efficientdet_d0/dgx_a100_amp_8gpu"},
                                           {"model.pretrained_sha256=" + digest});
  EXPECT_EQ(named.recipe.model().pretrained_sha256(), digest);
  ASSERT_EQ(named.modifications.size(), 1);
  EXPECT_TRUE(named.modifications[0].free());
  v1::Recipe wrong = named.recipe;
  wrong.mutable_model()->set_pretrained_sha256("A" + digest.substr(1));
  EXPECT_ANY_THROW(engine::require_offered(wrong, 8));
  wrong.mutable_model()->set_pretrained_sha256(digest);
  EXPECT_NO_THROW(engine::require_offered(wrong, 8));
  wrong.mutable_model()->clear_pretrained();
  EXPECT_ANY_THROW(engine::require_offered(wrong, 8));
}

}  // namespace
}  // namespace reciperun
