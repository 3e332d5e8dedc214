// How much a training is: what times are projected from and what plans cost.
#pragma once

#include <string>
#include <vector>

#include "recipes/recipe.pb.h"

namespace reciperun {

// One phase; a training without phases is one phase without a name.
struct TrainingPhase {
  std::string name;
  uint32_t batch_per_device = 0;
  double steps = 0;  // updates; 0 if the recipe does not say how long an epoch is
  double items = 0;  // samples seen, steps x global batch
};

std::vector<TrainingPhase> training_phases(const v1::Recipe& recipe, uint32_t devices);

// The bench that trains with a phase's work at its batch, or nullptr.
const v1::Bench* training_bench(const v1::Recipe& recipe, const TrainingPhase& phase);

}  // namespace reciperun
