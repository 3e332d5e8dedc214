#include "sdk/optim/optimizer.h"

#include <algorithm>
#include <array>
#include <map>

#include "sdk/base/expect.h"
#include "sdk/graph/leaves.h"
#include "sdk/optim/kinds.h"

namespace assay::optim {
namespace {

const std::array<KindKeys, 4>& kinds() {
  static const std::array<KindKeys, 4> kKinds{
      {{"sgd", {"momentum", "nesterov", "momentum_convention"}},
       {"adam", {"beta1", "beta2", "epsilon", "epsilon_form", "bias_correction"}},
       {"adamw", {"beta1", "beta2", "epsilon", "epsilon_form", "bias_correction"}},
       {"lamb", {"beta1", "beta2", "epsilon", "bias_correction"}}}};
  return kKinds;
}

constexpr double kMostDecay = 1e6;
// In f32 all of them are below 1, as bias correction wants.
constexpr Interval kBetas{0, 1 - 0x1p-24, true};

void check_number(std::string_view path, double value, const Interval& interval) {
  expect_number({"trainer", path}, value, interval);
}

void check_sgd(const OptimizerConfig& config) {
  check_number("optimizer.momentum", config.momentum(), {0, 1});
  expect(!config.nesterov() || config.momentum() > 0, {"trainer", "optimizer.momentum"},
         config.momentum(), "more than 0 with nesterov");
  expect_one_of({"trainer", "optimizer.momentum_convention"}, config.momentum_convention(),
                {"pytorch", "sutskever"});
}

void check_adaptive(const OptimizerConfig& config) {
  check_number("optimizer.beta1", config.beta1(), kBetas);
  check_number("optimizer.beta2", config.beta2(), kBetas);
  check_number("optimizer.epsilon", config.epsilon(), {0, 1});
  if (config.name() != "lamb") {
    expect_one_of({"trainer", "optimizer.epsilon_form"}, config.epsilon_form(),
                  {"pytorch", "tensorflow"});
  }
}

void check_group(const OptimizerConfig& config, int index) {
  const Group& group = config.group(index);
  const std::string path = cat("optimizer.group[", index, "]");
  expect(group.match_size() > 0, {"trainer", path + ".match"}, "empty", "at least one pattern");
  check_number(path + ".weight_decay", group.weight_decay(), {0, kMostDecay});
  check_number(path + ".lr_scale", group.lr_scale(), {0, kMostDecay});
  expect(!group.has_no_trust_ratio() || config.name() == "lamb",
         {"trainer", path + ".no_trust_ratio"}, "given", "absent: it belongs to lamb");
}

bool matches(const Group& group, std::string_view name) {
  for (const std::string& pattern : group.match()) {
    if (wildcard_match(pattern, name)) return true;
  }
  return false;
}

void check_patterns(const OptimizerConfig& config, const VariableTable& variables) {
  std::vector<std::string_view> names;
  for (const Variable& variable : variables.all()) {
    if (variable.role == Role::kValue) names.push_back(variable.name);
  }
  for (int i = 0; i < config.group_size(); ++i) {
    for (const std::string& pattern : config.group(i).match()) {
      const bool any = std::any_of(names.begin(), names.end(), [&](std::string_view name) {
        return wildcard_match(pattern, name);
      });
      if (any) continue;
      const std::string path = cat("optimizer.group[", i, "].match");
      fail_mismatch(Code::kInvalid,
                    {"trainer: " + path, path, cat('"', pattern, '"'),
                     "a pattern that matches a parameter", suggestion(pattern, names)});
    }
  }
}

// The leaves of one role for a list of names.
void push_parameters(Leaves& leaves, const VariableTable& variables,
                     const std::vector<GroupedParameter>& parameters, Role role,
                     std::vector<ValueId>& out) {
  for (const GroupedParameter& parameter : parameters)
    out.push_back(leaves.leaf(*variables.find(parameter.name), role));
}

Op update_op(const OptimizerConfig& config, const GroupedParameter& settings) {
  const auto weight_decay = static_cast<float>(settings.weight_decay);
  const auto lr_scale = static_cast<float>(settings.lr_scale);
  const auto beta1 = static_cast<float>(config.beta1());
  const auto beta2 = static_cast<float>(config.beta2());
  const auto epsilon = static_cast<float>(config.epsilon());
  if (config.name() == "sgd") {
    return SgdUpdate{.momentum = static_cast<float>(config.momentum()),
                     .nesterov = config.nesterov(),
                     .convention = config.momentum_convention() == "sutskever"
                                       ? MomentumConvention::kSutskever
                                       : MomentumConvention::kPyTorch,
                     .weight_decay = weight_decay,
                     .lr_scale = lr_scale};
  }
  if (config.name() == "lamb") {
    return LambUpdate{.beta1 = beta1,
                      .beta2 = beta2,
                      .epsilon = epsilon,
                      .bias_correction = config.bias_correction(),
                      .weight_decay = weight_decay,
                      .use_trust_ratio = settings.trust_ratio,
                      .lr_scale = lr_scale};
  }
  return AdamUpdate{.beta1 = beta1,
                    .beta2 = beta2,
                    .epsilon = epsilon,
                    .epsilon_form = config.epsilon_form() == "tensorflow" ? EpsilonForm::kTensorFlow
                                                                          : EpsilonForm::kPyTorch,
                    .bias_correction = config.bias_correction(),
                    .decoupled = config.name() == "adamw",
                    .weight_decay = weight_decay,
                    .lr_scale = lr_scale};
}

}  // namespace

// Empty texts are those of files written before these keys were optional.
OptimizerConfig with_defaults(OptimizerConfig config) {
  const std::string& name = config.name();
  if (name == "sgd") {
    if (!config.has_momentum()) config.set_momentum(0);
    if (!config.has_nesterov()) config.set_nesterov(false);
    if (config.momentum_convention().empty()) config.set_momentum_convention("pytorch");
  }
  if (name == "adam" || name == "adamw" || name == "lamb") {
    if (!config.has_beta1()) config.set_beta1(0.9);
    if (!config.has_beta2()) config.set_beta2(0.999);
    if (!config.has_epsilon()) config.set_epsilon(name == "lamb" ? 1e-6 : 1e-8);
    if (!config.has_bias_correction()) config.set_bias_correction(true);
    if (name != "lamb" && config.epsilon_form().empty()) config.set_epsilon_form("pytorch");
  }
  for (Group& group : *config.mutable_group()) {
    if (!group.has_weight_decay()) group.set_weight_decay(config.weight_decay());
    if (!group.has_lr_scale()) group.set_lr_scale(1);
    if (name == "lamb" && !group.has_no_trust_ratio()) group.set_no_trust_ratio(false);
  }
  return config;
}

void check(const OptimizerConfig& config) {
  expect_one_of({"trainer", "optimizer.name"}, config.name(), {"sgd", "adam", "adamw", "lamb"});
  check_kind_keys("optimizer", config, config.name(), kinds());
  check_number("optimizer.learning_rate", config.learning_rate(), {0, kMaxF32, true, false});
  check_number("optimizer.weight_decay", config.weight_decay(), {0, kMostDecay});
  check_number("optimizer.clip_norm", config.clip_norm(), {0, kMaxF32, true});
  check_number("optimizer.ema_decay", config.ema_decay(), {0, 1});
  if (config.name() == "sgd") {
    check_sgd(config);
  } else {
    check_adaptive(config);
  }
  for (int i = 0; i < config.group_size(); ++i) check_group(config, i);
}

bool wildcard_match(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0, star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::vector<GroupedParameter> resolve_groups(const OptimizerConfig& config,
                                             const VariableTable& variables) {
  check_patterns(config, variables);
  std::vector<GroupedParameter> result;
  for (const Variable& variable : variables.all()) {
    if (variable.role != Role::kValue) continue;
    GroupedParameter parameter{
        .name = variable.name, .index = result.size(), .weight_decay = config.weight_decay()};
    for (int i = 0; i < config.group_size(); ++i) {
      const Group& group = config.group(i);
      if (!matches(group, variable.name)) continue;
      expect(parameter.group < 0, {"trainer", "optimizer.group"},
             cat("matched by ", variable.name, " in groups ", parameter.group, " and ", i),
             "patterns that share no parameter");
      parameter.group = i;
      parameter.weight_decay = group.weight_decay();
      parameter.lr_scale = group.lr_scale();
      parameter.trust_ratio = !group.no_trust_ratio();
    }
    result.push_back(std::move(parameter));
  }
  return result;
}

std::vector<Role> state_roles(const OptimizerConfig& config) {
  std::vector<Role> roles;
  if (config.name() != "sgd" || config.momentum() > 0) roles.push_back(Role::kMoment1);
  if (config.name() != "sgd") roles.push_back(Role::kMoment2);
  if (config.ema_decay() > 0) roles.push_back(Role::kEma);
  return roles;
}

void append_update(Graph& graph, const OptimizerConfig& config, const VariableTable& variables,
                   const UpdateInputs& inputs, std::span<const ValueId> gradients) {
  const auto all = resolve_groups(config, variables);
  std::map<int, std::vector<GroupedParameter>> groups;
  for (const GroupedParameter& parameter : all) groups[parameter.group].push_back(parameter);
  Leaves leaves(graph);
  std::vector<ValueId> updated_values;
  for (const auto& [index, parameters] : groups) {
    graph.set_scope(cat("optimizer.", index < 0 ? "default" : cat("group", index)));
    std::vector<ValueId> operands{inputs.learning_rate, inputs.multiplier, inputs.skip};
    if (config.name() != "sgd") operands.push_back(inputs.step);
    push_parameters(leaves, variables, parameters, Role::kValue, operands);
    for (const GroupedParameter& parameter : parameters)
      operands.push_back(gradients[parameter.index]);
    for (const Role role : state_roles(config)) {
      if (role != Role::kEma) push_parameters(leaves, variables, parameters, role, operands);
    }
    const auto outputs = graph.emit(update_op(config, parameters.front()), operands);
    updated_values.insert(updated_values.end(), outputs.begin(),
                          outputs.begin() + static_cast<int64_t>(parameters.size()));
  }
  if (config.ema_decay() == 0) return;
  graph.set_scope("optimizer.ema");
  std::vector<GroupedParameter> in_update_order;
  for (const auto& [index, parameters] : groups) {
    in_update_order.insert(in_update_order.end(), parameters.begin(), parameters.end());
  }
  std::vector<ValueId> operands{inputs.skip};
  push_parameters(leaves, variables, in_update_order, Role::kEma, operands);
  operands.insert(operands.end(), updated_values.begin(), updated_values.end());
  graph.emit(EmaUpdate{static_cast<float>(config.ema_decay())}, operands);
}

}  // namespace assay::optim
