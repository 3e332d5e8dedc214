// Any bytes as a recipe: parsed, laid over itself, printed, digested, and changed by a --set taken
// from the same bytes. Only Error may come out.
#include <cstddef>
#include <cstdint>
#include <string>

#include "tools/recipe_run/recipe/digest.h"
#include "tools/recipe_run/recipe/fields.h"
#include "tools/recipe_run/recipe/load.h"
#include "tools/recipe_run/util/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace reciperun;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  try {
    const auto parsed = parse_recipe("fuzz", bytes);
    ResolvedRecipe resolved;
    lay_over(*parsed, resolved.recipe, resolved.origins);
    lay_over(*parsed, resolved.recipe, resolved.origins);
    exec_digest(resolved.recipe);
    expect_digest(resolved.recipe);
    for (const std::string& path : parsed->recipe.clear())
      clear_place(find_place(resolved.recipe, path));
    for (const std::string& set : parsed->recipe.free_override()) apply_set(set, resolved);
    check_recipe(resolved);
  } catch (const Error&) {
  }
  return 0;
}
