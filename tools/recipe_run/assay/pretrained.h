// Starting weights that another training left.
#pragma once

#include "tools/recipe_run/assay/objects.h"

namespace reciperun::engine {

// "" if the weights that model.pretrained names are there or none are asked for, else what to do.
std::string missing_weights(const v1::Recipe& recipe);

// If the recipe names pretrained weights: draws the model's first ones from the seed, then takes
// those in the place of all but model.fresh. Error kDataMismatch if one is not among them, or of
// another shape; without model.fresh, heads of models that name their body may be missing.
void begin_weights(const v1::Recipe& recipe, assay_model* model, uint64_t seed);

}  // namespace reciperun::engine
