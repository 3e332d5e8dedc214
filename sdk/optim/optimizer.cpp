// Which settings hold for which parameter, and one update node for all parameters that share them:
// a node is a few kernel launches, however many tensors it updates.
#include "sdk/optim/optimizer.h"

#include <algorithm>
#include <tuple>

#include "sdk/base/expect.h"
#include "sdk/base/wildcard.h"
#include "sdk/graph/elementwise.h"
#include "sdk/graph/leaves.h"

namespace assay::optim {
namespace {

bool matches(const Group& group, const Variable& variable) {
  const auto by_name = [&](const std::string& pattern) {
    return wildcard_match(pattern, variable.name);
  };
  const auto by_kind = [&](const std::string& kind) { return kind == to_text(variable.kind); };
  return (group.match.empty() || std::ranges::any_of(group.match, by_name)) &&
         (group.kind.empty() || std::ranges::any_of(group.kind, by_kind));
}

[[noreturn]] void fail_unmatched(size_t group, std::string_view key, std::string_view value,
                                 const std::string& expected, const std::string& suggestion) {
  const std::string path = cat("optimizer.group[", group, "].", key);
  fail_mismatch(Code::kInvalid,
                {"trainer: " + path, path, cat('"', value, '"'), expected, suggestion});
}

// A pattern or kind that matches nothing is misspelt, or of another network: what it meant would
// train with other settings.
void check_groups(const OptimizerConfig& config, const VariableTable& variables) {
  std::vector<std::string_view> names, kinds;
  for (const Variable& variable : variables.all()) {
    if (variable.role != Role::kValue) continue;
    names.push_back(variable.name);
    if (std::ranges::find(kinds, to_text(variable.kind)) == kinds.end())
      kinds.push_back(to_text(variable.kind));
  }
  for (size_t i = 0; i < config.group.size(); ++i) {
    for (const std::string& pattern : config.group[i].match) {
      const auto fits = [&](std::string_view name) { return wildcard_match(pattern, name); };
      if (std::ranges::none_of(names, fits))
        fail_unmatched(i, "match", pattern, "a pattern that matches a parameter",
                       suggested_pattern(pattern, names));
    }
    for (const std::string& kind : config.group[i].kind) {
      if (std::ranges::find(kinds, kind) == kinds.end())
        fail_unmatched(i, "kind", kind,
                       cat("a kind that a parameter of this network has: ", enumerate(kinds, true)),
                       "");
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

// Constants go to the device as f32; where f64 matters, backends take the decimal number as written
// (backend/as_written.h).
Op update_op(const OptimizerConfig& config, const GroupedParameter& settings) {
  const auto weight_decay = static_cast<float>(settings.weight_decay);
  const auto lr_scale = static_cast<float>(settings.lr_scale);
  if (config.name == "sgd") {
    return SgdUpdate{.momentum = static_cast<float>(*config.momentum),
                     .nesterov = *config.nesterov,
                     .convention = *config.momentum_convention == "sutskever"
                                       ? MomentumConvention::kSutskever
                                       : MomentumConvention::kPyTorch,
                     .weight_decay = weight_decay,
                     .lr_scale = lr_scale};
  }
  const auto beta1 = static_cast<float>(*config.beta1);
  const auto beta2 = static_cast<float>(*config.beta2);
  const auto epsilon = static_cast<float>(*config.epsilon);
  if (config.name == "lamb") {
    return LambUpdate{.beta1 = beta1,
                      .beta2 = beta2,
                      .epsilon = epsilon,
                      .bias_correction = *config.bias_correction,
                      .weight_decay = weight_decay,
                      .use_trust_ratio = settings.trust_ratio,
                      .lr_scale = lr_scale};
  }
  return AdamUpdate{.beta1 = beta1,
                    .beta2 = beta2,
                    .epsilon = epsilon,
                    .epsilon_form = *config.epsilon_form == "tensorflow" ? EpsilonForm::kTensorFlow
                                                                         : EpsilonForm::kPyTorch,
                    .bias_correction = *config.bias_correction,
                    .decoupled = config.name == "adamw",
                    .weight_decay = weight_decay,
                    .lr_scale = lr_scale};
}

// One update serves the parameters with the same settings.
using Settings = std::tuple<double, double, bool>;
Settings settings_of(const GroupedParameter& parameter) {
  return {parameter.weight_decay, parameter.lr_scale, parameter.trust_ratio};
}

// Of the trained ones, in the order in which the first of each stands in the table; those that no
// group touches come first.
std::vector<std::vector<GroupedParameter>> by_settings(std::vector<GroupedParameter> parameters) {
  std::erase_if(parameters, [](const GroupedParameter& p) { return p.frozen; });
  std::stable_partition(parameters.begin(), parameters.end(),
                        [](const GroupedParameter& p) { return p.groups.empty(); });
  std::vector<std::vector<GroupedParameter>> sets;
  for (GroupedParameter& parameter : parameters) {
    const auto same = std::ranges::find_if(
        sets, [&](const auto& set) { return settings_of(set.front()) == settings_of(parameter); });
    (same == sets.end() ? sets.emplace_back() : *same).push_back(std::move(parameter));
  }
  return sets;
}

std::vector<Role> moment_roles(const OptimizerConfig& config) {
  std::vector<Role> roles;
  if (config.name != "sgd" || *config.momentum > 0) roles.push_back(Role::kMoment1);
  if (config.name != "sgd") roles.push_back(Role::kMoment2);
  return roles;
}

// "group0+2" of a parameter that groups 0 and 2 touch.
std::string set_name(const GroupedParameter& parameter) {
  if (parameter.groups.empty()) return "default";
  std::string name = "group";
  for (const int group : parameter.groups)
    name += cat(group == parameter.groups[0] ? "" : "+", group);
  return name;
}

}  // namespace

std::vector<GroupedParameter> resolve_groups(const OptimizerConfig& config,
                                             const VariableTable& variables) {
  check_groups(config, variables);
  std::vector<GroupedParameter> result;
  size_t trained = 0;
  for (const Variable& variable : variables.all()) {
    if (variable.role != Role::kValue) continue;
    GroupedParameter parameter{
        .name = variable.name, .index = trained, .weight_decay = config.weight_decay};
    for (size_t i = 0; i < config.group.size(); ++i) {
      const Group& group = config.group[i];
      if (!matches(group, variable)) continue;
      parameter.groups.push_back(static_cast<int>(i));
      parameter.weight_decay = group.weight_decay.value_or(parameter.weight_decay);
      parameter.lr_scale = group.lr_scale.value_or(parameter.lr_scale);
      if (group.no_trust_ratio) parameter.trust_ratio = !*group.no_trust_ratio;
      parameter.frozen = group.frozen.value_or(parameter.frozen);
    }
    if (!parameter.frozen) ++trained;
    result.push_back(std::move(parameter));
  }
  expect(trained > 0 || result.empty(), {"trainer", "optimizer.group"}, "every parameter frozen",
         "at least one to be trained");
  return result;
}

std::vector<const Variable*> trained_variables(const OptimizerConfig& config,
                                               const VariableTable& variables) {
  std::vector<const Variable*> trained;
  for (const GroupedParameter& parameter : resolve_groups(config, variables))
    if (!parameter.frozen) trained.push_back(variables.find(parameter.name));
  return trained;
}

std::vector<Role> state_roles(const OptimizerConfig& config) {
  std::vector<Role> roles = moment_roles(config);
  for (const Role averaged : averaged_roles(config)) roles.push_back(average_of(averaged));
  return roles;
}

std::set<Role> averaged_roles(const OptimizerConfig& config) {
  if (config.ema_decay == 0) return {};
  return config.ema_statistics ? std::set{Role::kValue, Role::kStatistic} : std::set{Role::kValue};
}

void append_average(Graph& graph, const OptimizerConfig& config, const UpdateInputs& inputs,
                    std::span<const ValueId> averages, std::span<const ValueId> values) {
  std::vector<ValueId> operands{inputs.skip};
  if (config.ema_warmup) operands.push_back(inputs.step);
  operands.insert(operands.end(), averages.begin(), averages.end());
  operands.insert(operands.end(), values.begin(), values.end());
  graph.emit(EmaUpdate{static_cast<float>(config.ema_decay), config.ema_warmup}, operands);
}

ValueId append_decay(Graph& graph, const OptimizerConfig& config, const VariableTable& variables,
                     ValueId loss_scale, int64_t accumulate, std::span<ValueId> gradients) {
  if (!config.decay_in_loss.value_or(false)) return {};
  Leaves leaves(graph);
  ValueId loss;
  for (const std::vector<GroupedParameter>& parameters :
       by_settings(resolve_groups(config, variables))) {
    if (parameters.front().weight_decay == 0) continue;
    graph.set_scope(cat("optimizer.", set_name(parameters.front())));
    std::vector<ValueId> operands{loss_scale};
    push_parameters(leaves, variables, parameters, Role::kValue, operands);
    for (const GroupedParameter& parameter : parameters)
      operands.push_back(gradients[parameter.index]);
    const DecayGradients op{static_cast<float>(parameters.front().weight_decay), accumulate};
    const auto outputs = graph.emit(op, operands);
    for (size_t i = 0; i < parameters.size(); ++i) gradients[parameters[i].index] = outputs[i];
    loss = loss.valid() ? add(graph, loss, outputs.back()) : outputs.back();
  }
  return loss;
}

void append_update(Graph& graph, const OptimizerConfig& config, const VariableTable& variables,
                   const UpdateInputs& inputs, std::span<const ValueId> gradients) {
  auto resolved = resolve_groups(config, variables);
  if (config.decay_in_loss.value_or(false)) {  // the gradients have it already
    for (GroupedParameter& parameter : resolved) parameter.weight_decay = 0;
  }
  const auto sets = by_settings(std::move(resolved));
  Leaves leaves(graph);
  std::vector<ValueId> updated_values;
  for (const std::vector<GroupedParameter>& parameters : sets) {
    graph.set_scope(cat("optimizer.", set_name(parameters.front())));
    // The operand order of the ops (ops.h): scalars, values, gradients, moments.
    std::vector<ValueId> operands{inputs.learning_rate, inputs.multiplier, inputs.skip};
    if (config.name != "sgd") operands.push_back(inputs.step);
    push_parameters(leaves, variables, parameters, Role::kValue, operands);
    for (const GroupedParameter& parameter : parameters)
      operands.push_back(gradients[parameter.index]);
    for (const Role role : moment_roles(config))
      push_parameters(leaves, variables, parameters, role, operands);
    const auto outputs = graph.emit(update_op(config, parameters.front()), operands);
    updated_values.insert(updated_values.end(), outputs.begin(),
                          outputs.begin() + static_cast<int64_t>(parameters.size()));
  }
  if (config.ema_decay == 0) return;
  graph.set_scope("optimizer.ema");
  // Averages follow the updated values, so both lists are in the order of the update nodes.
  std::vector<GroupedParameter> in_update_order;
  for (const auto& parameters : sets) {
    in_update_order.insert(in_update_order.end(), parameters.begin(), parameters.end());
  }
  std::vector<ValueId> averages;
  push_parameters(leaves, variables, in_update_order, Role::kEma, averages);
  append_average(graph, config, inputs, averages, updated_values);
}

}  // namespace assay::optim
