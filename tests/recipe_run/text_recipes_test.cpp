// The published recipes of BERT and ELECTRA, bases laid under them: steps, rates and groups that
// the scripts had (ELECTRA's two generations of code are July and October of 2020).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tools/recipe_run/assay/configuration.h"
#include "tools/recipe_run/recipe/facts.h"
#include "tools/recipe_run/recipe/load.h"
#include "tools/recipe_run/util/file.h"

namespace reciperun {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const fs::path kRecipes = fs::path(ASSAY_SOURCE_DIR) / "recipes";
constexpr int64_t kWindows11 = 88614, kWindows20 = 131944, kLayers = 12;

std::string field(const char* name, int64_t value) {
  return "\"" + std::string(name) + "\":" + std::to_string(value) + ",";
}

// Concrete recipes whose names begin so.
std::map<std::string, v1::Recipe> recipes_of(const std::string& prefix) {
  std::map<std::string, v1::Recipe> found;
  for (const std::string& id : recipe_ids(kRecipes)) {
    if (!id.starts_with(prefix)) continue;
    const v1::Recipe recipe = load_recipe({kRecipes, id}).recipe;
    if (!recipe.abstract()) found.emplace(id.substr(id.find('/') + 1), recipe);
  }
  return found;
}

struct FineTuning {
  uint32_t devices;
  int64_t batch, windows, steps, warmup;
};

TEST(TextRecipes, FineTuneForThePublishedSteps) {
  const std::vector<FineTuning> published = {
      {8, 16, kWindows11, 1385, 69},   {8, 32, kWindows11, 693, 34},
      {1, 32, kWindows11, 5539, 276},  {1, 16, kWindows11, 11077, 553},
      {16, 32, kWindows11, 347, 17},   {8, 8, kWindows11, 2770, 138},
      {1, 8, kWindows11, 22154, 1107}, {8, 16, kWindows20, 3093, 154},
      {8, 8, kWindows20, 6185, 309}};
  std::vector<size_t> met(published.size());
  for (const auto& [name, recipe] : recipes_of("electra_base/squad")) {
    SCOPED_TRACE(name);
    const uint32_t devices = devices_of(recipe);
    const int64_t windows = name.starts_with("squad20") ? kWindows20 : kWindows11;
    const auto length = engine::training_length(recipe, windows, devices);
    const std::string config = engine::trainer_config(recipe, length, kLayers, 0, 0, devices);
    EXPECT_THAT(config, AllOf(HasSubstr(R"("beta1":0.9,"beta2":0.999,"epsilon":0.000001)"),
                              HasSubstr(R"("epsilon_form":"tensorflow")"),
                              HasSubstr(R"("weight_decay":0.01,"clip_norm":1,)"),
                              HasSubstr(R"("warmup_start":0,)"), HasSubstr(R"("end_factor":0)"),
                              Not(HasSubstr("no_trust_ratio"))));
    // The embeddings, the first block and the last; heads have the rate itself.
    for (const char* scale : {"0.04398046511104", "0.054975581388800", "0.64"})
      EXPECT_THAT(config, HasSubstr(R"("lr_scale":)" + std::string(scale).substr(0, 12)));
    const std::string kernels_only = R"("kind":["layer_norm","bias"],"weight_decay":0})";
    if (name.ends_with("_speed")) continue;  // measures steps, of no schedule of its own
    // July: norms decay as well, and the rate falls as if it had begun at step 0.
    const bool july = name.find("wikibooks") == std::string::npos;
    EXPECT_EQ(config.find(kernels_only) == std::string::npos, july) << config;
    EXPECT_EQ(config.find(R"("decay_from_start":true)") != std::string::npos, july);
    bool known = false;
    for (size_t i = 0; i < published.size(); ++i) {
      const FineTuning& row = published[i];
      if (row.devices != devices || row.batch != recipe.training().batch_per_device() ||
          row.windows != windows)
        continue;
      known = true;
      ++met[i];
      EXPECT_EQ(length.total_steps, row.steps);
      EXPECT_THAT(config, AllOf(HasSubstr(field("warmup_steps", row.warmup)),
                                HasSubstr(field("total_steps", row.steps))));
    }
    EXPECT_TRUE(known);
  }
  EXPECT_THAT(met, testing::Each(testing::Ge(size_t{1})));
}

TEST(TextRecipes, PreTrainElectraInTwoPhases) {
  int checked = 0;
  for (const auto& [name, recipe] : recipes_of("electra_base/pretraining")) {
    SCOPED_TRACE(name);
    const uint32_t devices = devices_of(recipe);
    const auto phases = engine::phases_of(recipe);
    ASSERT_EQ(phases.size(), 2);
    struct Phase {
      int64_t steps, warmup, batch;
      const char* rate;
    };
    const Phase published[] = {{10000, 2000, 67584, R"("learning_rate":0.006,)"},
                               {933, 200, 27648, R"("learning_rate":0.004,)"}};
    for (size_t i = 0; i < phases.size(); ++i) {
      const Phase& row = published[i];
      const auto length = engine::training_length(phases[i], 1 << 20, devices);
      EXPECT_EQ(length.total_steps, row.steps);
      // 40 sequences a device and 211 batches of them are 64 sequences short.
      const int64_t batch = engine::samples_per_step(phases[i], devices);
      EXPECT_EQ(batch, name.starts_with("pretraining_dgx1_fp32") && i == 0 ? 67520 : row.batch);
      EXPECT_THAT(
          engine::trainer_config(phases[i], length, kLayers, 0, 0, devices),
          AllOf(HasSubstr(R"("name":"lamb")"), HasSubstr(row.rate),
                HasSubstr(R"("beta1":0.878,"beta2":0.974,"epsilon":0.000001)"),
                HasSubstr(R"("weight_decay":0.01,"clip_norm":1,)"),
                HasSubstr(R"("kind":["layer_norm","bias"],"weight_decay":0})"),
                HasSubstr(R"("kind":["layer_norm","bias"],"no_trust_ratio":true})"),
                HasSubstr(R"("name":"polynomial")"), HasSubstr(field("warmup_steps", row.warmup)),
                HasSubstr(R"("warmup_start":0,)"), HasSubstr(field("total_steps", row.steps)),
                HasSubstr(R"("power":0.5)"), Not(HasSubstr("on_skip"))));
    }
    ++checked;
  }
  EXPECT_EQ(checked, 16);
}

TEST(TextRecipes, TrainBertAsOneFlowTimedIt) {
  int checked = 0;
  for (const auto& [name, recipe] : recipes_of("dlperf/bert")) {
    SCOPED_TRACE(name);
    const auto length = engine::training_length(recipe, 1 << 20, devices_of(recipe));
    const std::string config = engine::trainer_config(recipe, length, kLayers, 0, 0);
    EXPECT_THAT(config, AllOf(HasSubstr(R"("name":"adamw","learning_rate":0.0001,)"),
                              HasSubstr(R"("epsilon":0.000001,"bias_correction":false)"),
                              HasSubstr(R"("kind":["layer_norm","bias"],"weight_decay":0})"),
                              HasSubstr(R"("warmup_steps":14,"warmup_start":0,"total_steps":140,)"),
                              HasSubstr(name.ends_with("_noclip") ? R"("clip_norm":0)"
                                                                  : R"("clip_norm":1)")));
    ++checked;
  }
  EXPECT_EQ(checked, 14);
}

}  // namespace
}  // namespace reciperun
