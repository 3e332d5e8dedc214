// What a recipe says itself about being held against its source.
#pragma once

#include <string>

#include "recipes/recipe.pb.h"

namespace reciperun {

// "" if the recipe as it stands may be held against its published values, else why not: data that
// stand in for others, deviations after which something else is computed.
std::string incomparable_as_it_stands(const v1::Recipe& recipe);

}  // namespace reciperun
