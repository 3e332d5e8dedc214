// Timings are compared only on the class of hardware they were published for.
#pragma once

#include <string>

#include "recipes/recipe.pb.h"

namespace reciperun {

// "" if timings on `device` may be held against the recipe's, else why not.
std::string other_hardware(const v1::Recipe& recipe, const std::string& device);

}  // namespace reciperun
