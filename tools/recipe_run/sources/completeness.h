// Does every published result belong to one expectation, and to no other?
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "recipes/recipe.pb.h"

namespace reciperun {

struct Completeness {
  int results = 0;  // numbers in the result columns of the published documents
  int claimed = 0;  // of these, by exactly one expectation
  std::vector<std::string> problems;
};

// Over the tables below root/sources that were copied from documents. Recipes that are not
// comparable show numbers again: theirs do not count. Of tables without a document, which hold more
// than we claim, only what is claimed twice is a problem.
Completeness completeness_of(const std::vector<const v1::Recipe*>& recipes,
                             const std::filesystem::path& root);

}  // namespace reciperun
