// Golden plans: the text of each model's graphs. A refactor shows no difference here, an
// optimisation a small one. After a change that is meant: ASSAY_UPDATE_GOLDEN=1 models_test
// --gtest_filter='*Golden*', and read the diff.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "models/models.h"
#include "sdk/train/trainer_config.h"
#include "sdk/train/training_graph.h"
#include "tests/harness/graph_text.h"

namespace assay::train {
namespace {

struct PlanCase {
  std::string name, architecture, config, precision;
};
std::ostream& operator<<(std::ostream& out, const PlanCase& c) { return out << c.name; }

class GoldenPlan : public testing::TestWithParam<PlanCase> {};

void compare_with_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(ASSAY_SOURCE_DIR) + "/tests/golden/plans/" + name + ".txt";
  if (std::getenv("ASSAY_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
  std::ifstream file(path);
  ASSERT_TRUE(file.is_open()) << "no golden file " << path;
  EXPECT_EQ(text, std::string(std::istreambuf_iterator<char>(file), {})) << path;
}

TEST_P(GoldenPlan, StepAndPrediction) {
  const PlanCase& c = GetParam();
  const auto model = models::create_model(c.architecture, c.config);
  TrainerConfig config;
  config.batch_size = 8;
  config.accumulate = 1;
  config.precision = c.precision;
  config.optimizer.name = "sgd";
  config.optimizer.learning_rate = 0.1;
  config.optimizer.momentum = 0.9;
  config = with_defaults(config);
  VariableTable variables;
  Graph scratch;
  nn::Builder builder(scratch, nn::Mode::kTrain, 2, variables, 0);
  model->forward(builder);
  for (const char* name : {"trainer.step", "trainer.loss_scale", "trainer.good_steps"}) {
    const bool is_step = std::string_view(name) == "trainer.step";
    const bool is_scale = std::string_view(name) == "trainer.loss_scale";
    variables.add({name,
                   {},
                   is_step    ? DType::kI64
                   : is_scale ? DType::kF32
                              : DType::kI32,
                   Role::kState,
                   {}});
  }
  compare_with_golden(
      c.name + ".step",
      graph_text(build_training_graph(*model, variables, config, GraphKind::kStep).graph));
  compare_with_golden(
      c.name + ".predict",
      graph_text(
          build_predict_graph(*model, variables, parse_precision(c.precision), 8, {}).graph));
}

INSTANTIATE_TEST_SUITE_P(
    Models, GoldenPlan,
    testing::Values(PlanCase{"unet_medical.fp32", "unet_medical", "", "fp32"},
                    PlanCase{"unet_medical.amp-bf16", "unet_medical", "", "amp-bf16"},
                    PlanCase{"cnn.fp32", "cnn", R"({"dropout": 0.5})", "fp32"},
                    PlanCase{"cnn.amp-bf16", "cnn", R"({"dropout": 0.5})", "amp-bf16"},
                    PlanCase{"resnet18.fp32", "resnet18", "", "fp32"},
                    PlanCase{"resnet18.amp-bf16", "resnet18", "", "amp-bf16"},
                    PlanCase{"resnet50.fp32", "resnet50", "", "fp32"},
                    PlanCase{"resnet50.amp-bf16", "resnet50", "", "amp-bf16"}),
    [](const auto& param) {
      std::string name = param.param.name;
      for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
      return name;
    });

}  // namespace
}  // namespace assay::train
