#include "sdk/optim/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace assay::optim {
namespace {

VariableTable some_variables() {
  VariableTable table;
  table.add({"conv1.weight", {4, 3, 3, 1}, DType::kF32, Role::kValue, {}});
  table.add({"bn1.weight", {4}, DType::kF32, Role::kValue, {}});
  table.add({"bn1.bias", {4}, DType::kF32, Role::kValue, {}});
  table.add({"bn1.running_mean", {4}, DType::kF32, Role::kStatistic, {}});
  table.add({"fc.bias", {10}, DType::kF32, Role::kValue, {}});
  return table;
}

OptimizerConfig sgd() {
  OptimizerConfig config;
  config.set_name("sgd");
  config.set_learning_rate(0.1);
  config.set_weight_decay(1e-4);
  return config;
}

std::string error_of(const OptimizerConfig& config) {
  try {
    resolve_groups(config, some_variables());
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Groups, EveryTrainedVariableFallsIntoOne) {
  OptimizerConfig config = sgd();
  auto* group = config.add_group();
  group->add_match("bn*");
  group->add_match("*.bias");
  group->set_weight_decay(0);
  const auto resolved = resolve_groups(config, some_variables());
  ASSERT_EQ(resolved.size(), 4u);  // not the statistic
  EXPECT_EQ(resolved[0].weight_decay, 1e-4);
  for (int i = 1; i < 4; ++i) EXPECT_EQ(resolved[i].weight_decay, 0) << resolved[i].name;
}

TEST(Groups, OverlapAndEmptyPatternsAreErrors) {
  OptimizerConfig config = sgd();
  config.add_group()->add_match("bn1.*");
  config.add_group()->add_match("*.bias");
  EXPECT_THAT(error_of(config), testing::HasSubstr("bn1.bias matches groups 0 and 1"));
  OptimizerConfig nothing = sgd();
  nothing.add_group()->add_match("encoder.*");
  EXPECT_THAT(error_of(nothing), testing::HasSubstr("\"encoder.*\" matches no parameter"));
}

TEST(Config, RefusesKeysOfOtherOptimizersAndBadNumbers) {
  OptimizerConfig config = sgd();
  config.set_beta1(0.9);
  EXPECT_THAT(error_of(config), testing::HasSubstr("sgd takes momentum"));
  config = sgd();
  config.set_name("adagrad");
  EXPECT_THAT(error_of(config), testing::HasSubstr("use sgd, adam, adamw or lamb"));
  config = sgd();
  config.set_learning_rate(0);
  EXPECT_THAT(error_of(config), testing::HasSubstr("learning_rate must be positive"));
  config = sgd();
  config.set_momentum(1);
  EXPECT_THAT(error_of(config), testing::HasSubstr("momentum must be in [0, 1)"));
  config = sgd();
  config.set_nesterov(true);
  EXPECT_THAT(error_of(config), testing::HasSubstr("nesterov needs momentum"));
}

TEST(Wildcard, MatchesRunsOfCharacters) {
  EXPECT_TRUE(wildcard_match("*.bias", "layer1.0.bn1.bias"));
  EXPECT_TRUE(wildcard_match("layer*.bn*.weight", "layer1.0.bn1.weight"));
  EXPECT_TRUE(wildcard_match("*", ""));
  EXPECT_FALSE(wildcard_match("bn", "bn1"));
  EXPECT_FALSE(wildcard_match("*.bias", "bias"));
}

}  // namespace
}  // namespace assay::optim
