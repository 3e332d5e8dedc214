// --set path=value.
#pragma once

#include <string>

#include "tools/recipe_run/recipe/load.h"

namespace reciperun {

// Applies one "path=value" and records it. The value is recipe text; quotes around strings may be
// left out. A value that changes nothing is not a modification.
void apply_set(const std::string& text, ResolvedRecipe& resolved);

}  // namespace reciperun
