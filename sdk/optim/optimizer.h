// Turns an optimizer's configuration into update nodes at the end of a training graph.
#pragma once

#include <string>
#include <vector>

#include "sdk/graph/graph.h"
#include "sdk/graph/variable_table.h"
#include "sdk/optim/optimizer.pb.h"

namespace assay::optim {

// A trained variable with the settings of the group it fell into.
struct GroupedParameter {
  std::string name;
  size_t index = 0;  // among the trained variables
  int group = -1;    // index in the configuration, -1 for the defaults
  double weight_decay = 0;
  double lr_scale = 1;
  bool trust_ratio = true;
};

// Fills in the defaults of the configuration's kind.
OptimizerConfig with_defaults(OptimizerConfig config);

// Checks a configuration with its defaults; kInvalid names the key at fault. What follows takes
// configurations that passed.
void check(const OptimizerConfig& config);

// Assigns each trained variable to its group. Fails with kInvalid for a parameter that matches two
// groups or a pattern that matches nothing.
std::vector<GroupedParameter> resolve_groups(const OptimizerConfig& config,
                                             const VariableTable& variables);

// The roles, besides the value, that the optimizer keeps for each parameter: moments, EMA.
std::vector<Role> state_roles(const OptimizerConfig& config);

// The scalars that updates read; all [] values of the graph.
struct UpdateInputs {
  ValueId learning_rate, multiplier, skip, step;  // step: i64, already counted
};

// Appends the updates of all groups, then the EMA. `gradients` holds one value per trained
// variable, in table order.
void append_update(Graph& graph, const OptimizerConfig& config, const VariableTable& variables,
                   const UpdateInputs& inputs, std::span<const ValueId> gradients);

// "*" matches any run of characters; everything else is literal.
bool wildcard_match(std::string_view pattern, std::string_view name);

}  // namespace assay::optim
