// One trial of a recipe: training, evaluation, checkpoints and pictures through the C interface.
#pragma once

#include <memory>

#include "tools/recipe_run/assay/objects.h"
#include "tools/recipe_run/assay/ranks.h"
#include "tools/recipe_run/run/trainer.h"

namespace reciperun::engine {

// With several `devices` each has a loader of its own shard, and an update is from the mean of
// their gradients; without `ranks` they are played in turn, else this process is one of them.
// Continues at `checkpoint`, if that is not empty.
std::unique_ptr<TrainingTrial> make_training_trial(const assay_context* context,
                                                   const v1::Recipe& recipe, uint64_t trial,
                                                   uint32_t devices, const RankGroup* ranks,
                                                   bool on_gpu, const fs::path& checkpoint = {});

}  // namespace reciperun::engine
