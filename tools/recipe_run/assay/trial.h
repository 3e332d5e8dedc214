// One trial of a recipe: training, evaluation, checkpoints and pictures through the C interface.
#pragma once

#include <memory>

#include "tools/recipe_run/assay/objects.h"
#include "tools/recipe_run/run/trainer.h"

namespace reciperun::engine {

// With several `devices` each is played in turn: its own loader of its own shard, and one update
// from the mean of the gradients. Continues at `checkpoint`, if that is not empty.
std::unique_ptr<TrainingTrial> make_training_trial(const assay_context* context,
                                                   const v1::Recipe& recipe, uint64_t trial,
                                                   uint32_t devices, bool on_gpu,
                                                   const fs::path& checkpoint = {});

}  // namespace reciperun::engine
