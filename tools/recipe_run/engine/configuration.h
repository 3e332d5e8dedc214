// From a recipe to the configurations (JSON text) that the engine's C interface takes. Pure
// functions; what a recipe asks and the engine does not have is an Error kUsage naming the path.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "recipes/recipe.pb.h"

namespace reciperun {

// Model.hparam as one JSON object: values that are JSON numbers, true, false or [lists] stay,
// others become strings.
std::string model_config(const v1::Model& model);

// A trained variable, as the engine reports it.
struct Variable {
  std::string name;
  int dimensions = 0;
};

struct TrainerSetup {
  int64_t batch = 0;
  int64_t eval_batch = 0;
  double steps_per_epoch = 1;
  int64_t total_steps = 1;
  uint64_t seed = 0;
  std::vector<Variable>
      variables;  // for no_decay: "bias" is *.bias, "bn" every other variable of one dimension
};
std::string trainer_config(const v1::Recipe& recipe, const TrainerSetup& setup);

struct LoaderSetup {
  int64_t batch = 0;
  uint64_t seed = 0;
  bool training = true;  // shuffled without end; else one sequential pass, the last batch padded
};
std::string loader_config(const v1::Recipe& recipe, const LoaderSetup& setup);

// The stages of a pipeline, which must stand in the order the engine applies them: random_crop,
// random_flip, random_rotation, scale, normalize, random_erasing.
std::string transform_config(const v1::DataRef& data);

// Updates of the whole training, given the updates of one epoch.
int64_t total_steps(const v1::Training& training, double steps_per_epoch);

// The data of the first role in `roles` that the recipe has; fails if it has none.
const v1::DataRef& data_of_role(const v1::Recipe& recipe, const std::vector<std::string>& roles);

}  // namespace reciperun
