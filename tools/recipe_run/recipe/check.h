// What a resolved recipe must satisfy beyond its syntax before anything is run with it.
#pragma once

#include "tools/recipe_run/recipe/load.h"

namespace reciperun {

// Fails on the first problem, naming the file and line that set the value. An abstract recipe is
// only checked for what its heirs cannot repair.
void check_recipe(const ResolvedRecipe& resolved);

}  // namespace reciperun
