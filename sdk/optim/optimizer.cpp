#include "sdk/optim/optimizer.h"

#include <cmath>
#include <map>

namespace assay::optim {
namespace {

bool is_adam(const OptimizerConfig& config) {
  return config.name() == "adam" || config.name() == "adamw";
}

void check_range(std::string_view key, double value, double low, double high) {
  require(std::isfinite(value) && value >= low && value < high, Code::kInvalid, "optimizer: ", key,
          " must be in [", low, ", ", high, "), got ", value);
}

void check(const OptimizerConfig& config) {
  const std::string& name = config.name();
  require(!name.empty(), Code::kInvalid,
          "optimizer: name is missing; use sgd, adam, adamw or lamb");
  require(name == "sgd" || name == "lamb" || is_adam(config), Code::kInvalid,
          "optimizer: unknown name \"", name, "\"; use sgd, adam, adamw or lamb");
  require(std::isfinite(config.learning_rate()) && config.learning_rate() > 0, Code::kInvalid,
          "optimizer: learning_rate must be positive, got ", config.learning_rate());
  check_range("momentum", config.momentum(), 0, 1);
  check_range("weight_decay", config.weight_decay(), 0, 1e6);
  check_range("clip_norm", config.clip_norm(), 0, 1e30);
  check_range("ema_decay", config.ema_decay(), 0, 1);
  if (config.has_beta1()) check_range("beta1", config.beta1(), 0, 1);
  if (config.has_beta2()) check_range("beta2", config.beta2(), 0, 1);
  if (config.has_epsilon()) check_range("epsilon", config.epsilon(), 0, 1);
  const std::string& convention = config.momentum_convention();
  require(convention.empty() || convention == "pytorch" || convention == "sutskever",
          Code::kInvalid, "optimizer: momentum_convention is \"pytorch\" or \"sutskever\", got \"",
          convention, "\"");
  const std::string& form = config.epsilon_form();
  require(form.empty() || form == "pytorch" || form == "tensorflow", Code::kInvalid,
          "optimizer: epsilon_form is \"pytorch\" or \"tensorflow\", got \"", form, "\"");
  require(!config.nesterov() || config.momentum() > 0, Code::kInvalid,
          "optimizer: nesterov needs momentum");
  require(name == "sgd" || (config.momentum() == 0 && convention.empty()), Code::kInvalid,
          "optimizer: ", name, " has no momentum key; it takes beta1 and beta2");
  require(name != "sgd" || !(config.has_beta1() || config.has_beta2() || config.has_epsilon()),
          Code::kInvalid, "optimizer: sgd takes momentum, not beta1, beta2 or epsilon");
}

bool matches(const Group& group, std::string_view name) {
  for (const std::string& pattern : group.match()) {
    if (wildcard_match(pattern, name)) return true;
  }
  return false;
}

void check_patterns(const OptimizerConfig& config, const VariableTable& variables) {
  for (const Group& group : config.group()) {
    require(group.match_size() > 0, Code::kInvalid,
            "optimizer: a group needs at least one match pattern");
    for (const std::string& pattern : group.match()) {
      bool any = false;
      for (const Variable& variable : variables.all()) {
        any = any || (variable.role == Role::kValue && wildcard_match(pattern, variable.name));
      }
      require(any, Code::kInvalid, "optimizer: group pattern \"", pattern,
              "\" matches no parameter");
    }
  }
}

// The Parameters of one role for a list of names.
void push_parameters(Graph& graph, const VariableTable& variables,
                     const std::vector<GroupedParameter>& parameters, Role role,
                     std::vector<ValueId>& out) {
  for (const GroupedParameter& parameter : parameters) {
    out.push_back(graph.emit1(
        Parameter{parameter.name, role, DType::kF32, variables.find(parameter.name)->dims}, {}));
  }
}

Op update_op(const OptimizerConfig& config, const GroupedParameter& settings) {
  const auto weight_decay = static_cast<float>(settings.weight_decay);
  const auto lr_scale = static_cast<float>(settings.lr_scale);
  const auto beta1 = static_cast<float>(config.has_beta1() ? config.beta1() : 0.9);
  const auto beta2 = static_cast<float>(config.has_beta2() ? config.beta2() : 0.999);
  const bool correction = !config.has_bias_correction() || config.bias_correction();
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
                      .epsilon = static_cast<float>(config.has_epsilon() ? config.epsilon() : 1e-6),
                      .bias_correction = correction,
                      .weight_decay = weight_decay,
                      .use_trust_ratio = settings.trust_ratio,
                      .lr_scale = lr_scale};
  }
  return AdamUpdate{.beta1 = beta1,
                    .beta2 = beta2,
                    .epsilon = static_cast<float>(config.has_epsilon() ? config.epsilon() : 1e-8),
                    .epsilon_form = config.epsilon_form() == "tensorflow" ? EpsilonForm::kTensorFlow
                                                                          : EpsilonForm::kPyTorch,
                    .bias_correction = correction,
                    .decoupled = config.name() == "adamw",
                    .weight_decay = weight_decay,
                    .lr_scale = lr_scale};
}

}  // namespace

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
  check(config);
  check_patterns(config, variables);
  std::vector<GroupedParameter> result;
  for (const Variable& variable : variables.all()) {
    if (variable.role != Role::kValue) continue;
    GroupedParameter parameter{
        .name = variable.name, .index = result.size(), .weight_decay = config.weight_decay()};
    for (int i = 0; i < config.group_size(); ++i) {
      const Group& group = config.group(i);
      if (!matches(group, variable.name)) continue;
      require(parameter.group < 0, Code::kInvalid, "optimizer: parameter ", variable.name,
              " matches groups ", parameter.group, " and ", i, "; make the patterns disjoint");
      parameter.group = i;
      if (group.has_weight_decay()) parameter.weight_decay = group.weight_decay();
      if (group.has_lr_scale()) parameter.lr_scale = group.lr_scale();
      parameter.trust_ratio = !group.no_trust_ratio();
      check_range("group weight_decay", parameter.weight_decay, 0, 1e6);
      check_range("group lr_scale", parameter.lr_scale, 0, 1e6);
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
  std::vector<ValueId> updated_values;
  for (const auto& [index, parameters] : groups) {
    graph.set_scope(cat("optimizer.", index < 0 ? "default" : cat("group", index)));
    std::vector<ValueId> operands{inputs.learning_rate, inputs.multiplier, inputs.skip};
    if (config.name() != "sgd") operands.push_back(inputs.step);
    push_parameters(graph, variables, parameters, Role::kValue, operands);
    for (const GroupedParameter& parameter : parameters)
      operands.push_back(gradients[parameter.index]);
    for (const Role role : state_roles(config)) {
      if (role != Role::kEma) push_parameters(graph, variables, parameters, role, operands);
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
  push_parameters(graph, variables, in_update_order, Role::kEma, operands);
  operands.insert(operands.end(), updated_values.begin(), updated_values.end());
  graph.emit(EmaUpdate{static_cast<float>(config.ema_decay())}, operands);
}

}  // namespace assay::optim
