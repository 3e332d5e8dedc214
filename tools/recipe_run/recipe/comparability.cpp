#include "tools/recipe_run/recipe/comparability.h"

#include <vector>

#include "tools/recipe_run/base/text.h"

namespace reciperun {

std::string incomparable_as_it_stands(const v1::Recipe& recipe) {
  for (const v1::DataRef& data : recipe.data()) {
    if (!data.substitute_for().empty())
      return "substitute data: " + data.lock() + " for " + data.substitute_for();
  }
  std::vector<std::string> changes;
  for (const v1::Deviation& deviation : recipe.deviation()) {
    if (deviation.not_comparable()) changes.push_back(deviation.we_have());
  }
  return changes.empty() ? "" : "modified by the recipe: " + join(changes, "; ");
}

}  // namespace reciperun
