// Starting weights that another training left.
#pragma once

#include "tools/recipe_run/assay/objects.h"

namespace reciperun::engine {

// "" if the weights that model.pretrained names are there or none are asked for, else what to do.
std::string missing_weights(const v1::Recipe& recipe);

// If the recipe names pretrained weights: draws the model's first ones from the seed, then takes
// those in the place of all that they have names for. Error kDataMismatch if a table of the
// embeddings or a block is not among them, or of another shape: only heads stay as drawn.
void begin_weights(const v1::Recipe& recipe, assay_model* model, uint64_t seed);

}  // namespace reciperun::engine
