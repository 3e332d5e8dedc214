#include "sdk/optim/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace assay::optim {
namespace {

using testing::HasSubstr;

VariableTable some_variables() {
  VariableTable table;
  const auto norm = VariableKind::kBatchNorm;
  table.add({"conv1.weight", {4, 3, 3, 1}, DType::kF32, Role::kValue, {}});
  table.add({"bn1.weight", {4}, DType::kF32, Role::kValue, {}, norm});
  table.add({"bn1.bias", {4}, DType::kF32, Role::kValue, {}, norm});
  table.add({"bn1.running_mean", {4}, DType::kF32, Role::kStatistic, {}, norm});
  table.add({"fc.bias", {10}, DType::kF32, Role::kValue, {}, VariableKind::kBias});
  return table;
}

OptimizerConfig sgd() {
  OptimizerConfig config;
  config.name = "sgd";
  config.learning_rate = 0.1;
  config.weight_decay = 1e-4;
  return config;
}

std::string error_of(const OptimizerConfig& config) {
  try {
    const OptimizerConfig resolved = with_defaults(config);
    check_config("trainer", "optimizer.", resolved);
    check_together(resolved);
    resolve_groups(resolved, some_variables());
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Groups, EveryTrainedVariableFallsIntoOne) {
  OptimizerConfig config = sgd();
  Group& group = config.group.emplace_back();
  group.match.push_back("bn*");
  group.match.push_back("*.bias");
  group.weight_decay = 0;
  const auto resolved = resolve_groups(with_defaults(config), some_variables());
  ASSERT_EQ(resolved.size(), 4u);  // not the statistic
  EXPECT_EQ(resolved[0].weight_decay, 1e-4);
  for (int i = 1; i < 4; ++i) EXPECT_EQ(resolved[i].weight_decay, 0) << resolved[i].name;
}

// Layer-wise rates and parameters without decay, as BERT and ELECTRA are fine-tuned: two lists that
// cross, each setting from the last group that gives it.
TEST(Groups, SettingsResolveOneByOne) {
  OptimizerConfig config = sgd();
  config.name = "lamb";
  config.group = {{.match = {"conv1.*"}, .lr_scale = 0.5},
                  {.match = {"bn1.*"}, .lr_scale = 0.8},
                  {.match = {"*.bias", "bn*"}, .weight_decay = 0, .no_trust_ratio = true},
                  {.match = {"bn1.bias"}, .lr_scale = 0.9}};
  const auto resolved = resolve_groups(with_defaults(config), some_variables());
  const auto expect_settings = [&](size_t i, const std::string& name, double decay, double rate,
                                   bool trust_ratio, const std::vector<int>& groups) {
    EXPECT_EQ(resolved[i].name, name);
    EXPECT_EQ(resolved[i].weight_decay, decay) << name;
    EXPECT_EQ(resolved[i].lr_scale, rate) << name;
    EXPECT_EQ(resolved[i].trust_ratio, trust_ratio) << name;
    EXPECT_EQ(resolved[i].groups, groups) << name;
  };
  ASSERT_EQ(resolved.size(), 4u);
  expect_settings(0, "conv1.weight", 1e-4, 0.5, true, {0});
  expect_settings(1, "bn1.weight", 0, 0.8, false, {1, 2});
  expect_settings(2, "bn1.bias", 0, 0.9, false, {1, 2, 3});
  expect_settings(3, "fc.bias", 0, 1, false, {2});
}

// One update for all parameters with the same settings, however they came to them.
TEST(Groups, UpdatesAreSharedByEqualSettings) {
  OptimizerConfig config = sgd();
  config.group = {{.match = {"bn1.*"}, .weight_decay = 0},
                  {.match = {"fc.*"}, .weight_decay = 0},
                  {.match = {"conv1.*"}, .lr_scale = 1}};
  const OptimizerConfig resolved = with_defaults(config);
  const VariableTable variables = some_variables();
  Graph graph;
  const auto scalar = [&](DType type) { return graph.emit1(Input{"x", type, {}}, {}); };
  std::vector<ValueId> gradients;
  for (const Variable& v : variables.all()) {
    if (v.role == Role::kValue)
      gradients.push_back(graph.emit1(Input{v.name, DType::kF32, v.dims}, {}));
  }
  const UpdateInputs inputs{scalar(DType::kF32), scalar(DType::kF32), scalar(DType::kF32),
                            scalar(DType::kI64)};
  append_update(graph, resolved, variables, inputs, gradients);
  std::vector<std::string> updates;
  for (const Node& node : graph.nodes()) {
    if (const auto* update = std::get_if<SgdUpdate>(&node.op))
      updates.push_back(cat(node.scope, " ", update->weight_decay, " of ", node.outputs.size()));
  }
  EXPECT_THAT(updates,
              testing::ElementsAre("optimizer.group2 1e-04 of 1", "optimizer.group0 0 of 3"));
}

// By what they are, and by both: the bias of a norm is a norm's.
TEST(Groups, OfAKind) {
  OptimizerConfig config = sgd();
  config.group = {{.kind = {"bias"}, .weight_decay = 0},
                  {.match = {"*.bias"}, .kind = {"batch_norm", "kernel"}, .lr_scale = 0.5}};
  const auto resolved = resolve_groups(with_defaults(config), some_variables());
  std::vector<std::vector<int>> groups;
  for (const GroupedParameter& parameter : resolved) groups.push_back(parameter.groups);
  EXPECT_THAT(groups, testing::ElementsAre(std::vector<int>{}, std::vector<int>{},
                                           std::vector<int>{1}, std::vector<int>{0}));
  config.group = {{.kind = {"bias", "layer_norm"}}};
  EXPECT_THAT(error_of(config), HasSubstr("group[0].kind is \"layer_norm\", expected a kind that a "
                                          "parameter of this network has: \"kernel\", "
                                          "\"batch_norm\" or \"bias\""));
  config.group = {{.kind = {"biases"}}};
  EXPECT_THAT(error_of(config), HasSubstr("optimizer.group[0].kind"));
}

TEST(Groups, EmptyPatternsAreErrors) {
  OptimizerConfig nothing = sgd();
  nothing.group.emplace_back().match.push_back("encoder.*");
  EXPECT_THAT(
      error_of(nothing),
      testing::HasSubstr("group[0].match is \"encoder.*\", expected a pattern that matches"));
}

TEST(Config, RefusesKeysOfOtherOptimizers) {
  OptimizerConfig config = sgd();
  config.beta1 = 0.9;
  EXPECT_THAT(error_of(config),
              HasSubstr("optimizer.beta1 belongs to adam, adamw or lamb, not to sgd, which takes "
                        "momentum, nesterov, momentum_convention and decay_in_loss"));
  config = sgd();
  config.name = "lamb";
  config.decay_in_loss = true;
  EXPECT_THAT(error_of(config), HasSubstr("optimizer.decay_in_loss belongs to sgd or adam"));
  config = sgd();
  config.name = "adam";
  config.momentum = 0;
  EXPECT_THAT(error_of(config), HasSubstr("optimizer.momentum belongs to sgd, not to adam"));
  config.momentum.reset();
  config.nesterov = false;
  EXPECT_THAT(error_of(config), HasSubstr("optimizer.nesterov belongs to sgd"));
  config = sgd();
  config.bias_correction = true;
  EXPECT_THAT(error_of(config), HasSubstr("optimizer.bias_correction belongs to"));
  config = sgd();
  config.name = "lamb";
  config.epsilon_form = "pytorch";
  EXPECT_THAT(error_of(config), HasSubstr("optimizer.epsilon_form belongs to adam or adamw"));
  config = sgd();
  config.group.emplace_back().match.push_back("*.bias");
  config.group[0].no_trust_ratio = true;
  EXPECT_THAT(error_of(config), HasSubstr("optimizer.group[0].no_trust_ratio"));
}

TEST(Config, RefusesBadNumbersAndNames) {
  OptimizerConfig config = sgd();
  config.name = "adagrad";
  EXPECT_THAT(error_of(config),
              HasSubstr("is \"adagrad\", expected \"sgd\", \"adam\", \"adamw\" or \"lamb\""));
  config.name.clear();
  EXPECT_THAT(error_of(config), HasSubstr("optimizer.name is not given"));
  config = sgd();
  config.learning_rate = 0;
  EXPECT_THAT(error_of(config),
              HasSubstr("optimizer.learning_rate is 0, expected a number in (0,"));
  config.learning_rate = OptimizerConfig().learning_rate;
  EXPECT_THAT(error_of(config),
              HasSubstr("optimizer.learning_rate is not given, expected a number in (0,"));
  config = sgd();
  config.momentum = 1;
  EXPECT_THAT(error_of(config), HasSubstr("optimizer.momentum is 1, expected a number in [0, 1)"));
  config.name = "adam";
  config.momentum.reset();
  config.beta2 = 0.99999999;  // below 1, but not in f32
  EXPECT_THAT(error_of(config), HasSubstr("optimizer.beta2 is 0.99999999, expected a number in"));
  config = sgd();
  config.nesterov = true;
  EXPECT_THAT(error_of(config), HasSubstr("expected more than 0 with nesterov"));
  config = sgd();
  config.group.emplace_back();
  EXPECT_THAT(error_of(config), HasSubstr("optimizer.group[0].match is empty"));
}

TEST(Config, DefaultsAreThoseOfTheKind) {
  OptimizerConfig config = sgd();
  EXPECT_EQ(with_defaults(config).momentum_convention, "pytorch");
  EXPECT_FALSE(with_defaults(config).beta1.has_value());
  config.name = "lamb";
  EXPECT_EQ(with_defaults(config).epsilon, 1e-6);
  EXPECT_TRUE(*with_defaults(config).bias_correction);
  EXPECT_FALSE(with_defaults(config).momentum.has_value());
  config.name = "adamw";
  EXPECT_EQ(with_defaults(config).epsilon, 1e-8);
  EXPECT_EQ(with_defaults(config).beta2, 0.999);
}

TEST(Config, DescribesEveryKey) {
  OptimizerConfig config;
  const ConfigFields fields(config_ref(config));
  for (const ConfigField& field : fields.all()) EXPECT_FALSE(field.text().empty()) << field.name();
}

}  // namespace
}  // namespace assay::optim
