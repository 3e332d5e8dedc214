// Turns an optimizer's configuration into update nodes at the end of a training graph.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "sdk/graph/graph.h"
#include "sdk/graph/variable_table.h"
#include "sdk/optim/optimizer_config.h"

namespace assay::optim {

// A parameter with its settings.
struct GroupedParameter {
  std::string name;
  size_t index = 0;         // among those that are not frozen
  std::vector<int> groups;  // those of the configuration that it matches
  double weight_decay = 0;
  double lr_scale = 1;
  bool trust_ratio = true;
  bool frozen = false;
};

// The settings of each parameter, one by one: of the last group that matches it and gives the
// setting, else of the optimizer. So "*.bias" without decay and "layer3.*" at half the rate cross.
// Fails with kInvalid for a pattern or kind that matches nothing, and if all are frozen.
std::vector<GroupedParameter> resolve_groups(const OptimizerConfig& config,
                                             const VariableTable& variables);

// The parameters that are not frozen, in table order: the trained ones.
std::vector<const Variable*> trained_variables(const OptimizerConfig& config,
                                               const VariableTable& variables);

// The roles, besides the value, that the optimizer keeps: moments, moving averages.
std::vector<Role> state_roles(const OptimizerConfig& config);

// The declared roles (kValue, kStatistic) of which it keeps moving averages.
std::set<Role> averaged_roles(const OptimizerConfig& config);

// The scalars that updates read; all [] values of the graph.
struct UpdateInputs {
  ValueId learning_rate, multiplier, skip, step;  // step: i64, already counted
};

// Of `decay_in_loss`: adds the decay's part to the gradients, scaled by `loss_scale` and summed
// over `accumulate` batches like they are, and gives its part of the loss; without decay none.
// `gradients` holds one value per trained variable, in table order.
ValueId append_decay(Graph& graph, const OptimizerConfig& config, const VariableTable& variables,
                     ValueId loss_scale, int64_t accumulate, std::span<ValueId> gradients);

// Appends the updates of all groups, then the moving averages of the parameters. `gradients` holds
// one value per trained variable, in table order.
void append_update(Graph& graph, const OptimizerConfig& config, const VariableTable& variables,
                   const UpdateInputs& inputs, std::span<const ValueId> gradients);

// Appends the step of the moving averages of `values`, one average for each.
void append_average(Graph& graph, const OptimizerConfig& config, const UpdateInputs& inputs,
                    std::span<const ValueId> averages, std::span<const ValueId> values);

}  // namespace assay::optim
