#include "sdk/optim/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace assay::optim {
namespace {

using testing::HasSubstr;

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
    const OptimizerConfig resolved = with_defaults(config);
    check(resolved);
    resolve_groups(resolved, some_variables());
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
  const auto resolved = resolve_groups(with_defaults(config), some_variables());
  ASSERT_EQ(resolved.size(), 4u);  // not the statistic
  EXPECT_EQ(resolved[0].weight_decay, 1e-4);
  for (int i = 1; i < 4; ++i) EXPECT_EQ(resolved[i].weight_decay, 0) << resolved[i].name;
}

TEST(Groups, OverlapAndEmptyPatternsAreErrors) {
  OptimizerConfig config = sgd();
  config.add_group()->add_match("bn1.*");
  config.add_group()->add_match("*.bias");
  EXPECT_THAT(error_of(config), testing::HasSubstr("matched by bn1.bias in groups 0 and 1"));
  OptimizerConfig nothing = sgd();
  nothing.add_group()->add_match("encoder.*");
  EXPECT_THAT(
      error_of(nothing),
      testing::HasSubstr("group[0].match is \"encoder.*\", expected a pattern that matches"));
}

TEST(Config, RefusesKeysOfOtherOptimizers) {
  OptimizerConfig config = sgd();
  config.set_beta1(0.9);
  EXPECT_THAT(error_of(config),
              HasSubstr("optimizer.beta1 belongs to adam, adamw or lamb, not to sgd, which takes "
                        "momentum, nesterov and momentum_convention"));
  config = sgd();
  config.set_name("adam");
  config.set_momentum(0);
  EXPECT_THAT(error_of(config), HasSubstr("optimizer.momentum belongs to sgd, not to adam"));
  config.clear_momentum();
  config.set_nesterov(false);
  EXPECT_THAT(error_of(config), HasSubstr("optimizer.nesterov belongs to sgd"));
  config = sgd();
  config.set_bias_correction(true);
  EXPECT_THAT(error_of(config), HasSubstr("optimizer.bias_correction belongs to"));
  config = sgd();
  config.set_name("lamb");
  config.set_epsilon_form("pytorch");
  EXPECT_THAT(error_of(config), HasSubstr("optimizer.epsilon_form belongs to adam or adamw"));
  config = sgd();
  config.add_group()->add_match("*.bias");
  config.mutable_group(0)->set_no_trust_ratio(true);
  EXPECT_THAT(error_of(config), HasSubstr("optimizer.group[0].no_trust_ratio"));
}

TEST(Config, RefusesBadNumbersAndNames) {
  OptimizerConfig config = sgd();
  config.set_name("adagrad");
  EXPECT_THAT(error_of(config),
              HasSubstr("is \"adagrad\", expected \"sgd\", \"adam\", \"adamw\" or \"lamb\""));
  config.clear_name();
  EXPECT_THAT(error_of(config), HasSubstr("optimizer.name is not given"));
  config = sgd();
  config.set_learning_rate(0);
  EXPECT_THAT(error_of(config),
              HasSubstr("optimizer.learning_rate is 0, expected a number in (0,"));
  config = sgd();
  config.set_momentum(1);
  EXPECT_THAT(error_of(config), HasSubstr("optimizer.momentum is 1, expected a number in [0, 1)"));
  config.set_name("adam");
  config.clear_momentum();
  config.set_beta2(0.99999999);  // below 1, but not in f32
  EXPECT_THAT(error_of(config), HasSubstr("optimizer.beta2 is 0.99999999, expected a number in"));
  config = sgd();
  config.set_nesterov(true);
  EXPECT_THAT(error_of(config), HasSubstr("expected more than 0 with nesterov"));
  config = sgd();
  config.add_group();
  EXPECT_THAT(error_of(config), HasSubstr("optimizer.group[0].match is empty"));
}

TEST(Config, DefaultsAreThoseOfTheKind) {
  OptimizerConfig config = sgd();
  EXPECT_EQ(with_defaults(config).momentum_convention(), "pytorch");
  EXPECT_FALSE(with_defaults(config).has_beta1());
  config.set_name("lamb");
  EXPECT_EQ(with_defaults(config).epsilon(), 1e-6);
  EXPECT_TRUE(with_defaults(config).bias_correction());
  EXPECT_FALSE(with_defaults(config).has_momentum());
  config.set_name("adamw");
  EXPECT_EQ(with_defaults(config).epsilon(), 1e-8);
  EXPECT_EQ(with_defaults(config).beta2(), 0.999);
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
