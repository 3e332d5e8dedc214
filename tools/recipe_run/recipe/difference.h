// What two recipes have that is not the same.
#pragma once

#include <string>
#include <vector>

#include "recipes/recipe.pb.h"

namespace reciperun {

struct FieldDifference {
  std::string path;   // path.h
  std::string first;  // as recipe text, "" if not set
  std::string second;
};

// Of the fields that decide what runs (canonical.h), by path.
std::vector<FieldDifference> executed_differences(const v1::Recipe& first,
                                                  const v1::Recipe& second);

}  // namespace reciperun
