// What a run costs in time and disk: as published, and here.
#pragma once

#include <optional>
#include <string>

#include "recipes/recipe.pb.h"
#include "tools/recipe_run/verdict/measurements.h"

namespace reciperun {

// Hours of one trial, all its devices counted one by one.
struct TrialCost {
  double device_hours = 0;
  std::string from;  // what it was computed from
};

// On the published machine: its time to train, or its throughput. Absent if the recipe says
// neither.
std::optional<TrialCost> published_cost(const v1::Recipe& recipe);

// Here: finished trials of an earlier run, or its training throughput on one device (which trains
// the items of all devices one after another). Absent if there is neither.
std::optional<TrialCost> own_cost(const v1::Recipe& recipe, const Measurements& earlier);

// Bytes that a run leaves behind: one checkpoint per trial (weights, master copy and two moments in
// fp32), 40 bytes per training step, 8 per measured step. 0 for what the recipe does not say.
double disk_bytes(const v1::Recipe& recipe, uint32_t trials);

}  // namespace reciperun
