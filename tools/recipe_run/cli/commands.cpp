#include "tools/recipe_run/cli/commands.h"

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/cli/output.h"
#include "tools/recipe_run/recipe/load.h"
#include "tools/recipe_run/recipe/path.h"

namespace reciperun {
namespace {

std::string place_of(const Origin& origin) {
  return origin.line == 0 ? origin.file : origin.file + ":" + std::to_string(origin.line);
}

}  // namespace

fs::path recipes_root(const std::string& given) {
  std::error_code ignored;
  if (!given.empty()) {
    if (fs::is_directory(given, ignored)) return given;
    throw Error(Exit::kUsage, "--recipes '" + given + "' is not a folder");
  }
  std::vector<fs::path> candidates = {"recipes"};
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  for (fs::path up = program.parent_path(); up.has_relative_path(); up = up.parent_path()) {
    candidates.push_back(up / "recipes");
    candidates.push_back(up / "share/assay/recipes");
  }
  for (const fs::path& candidate : candidates) {
    if (fs::is_regular_file(candidate / "recipe.proto", ignored)) return candidate;
  }
  throw Error(Exit::kUsage, "there is no recipes folder here or above the program",
              "name it with --recipes DIR");
}

int show_recipe(const fs::path& root, const std::string& name, const std::string& path,
                const std::vector<std::string>& sets) {
  ResolvedRecipe resolved = load_recipe(locate_recipe(root, name), sets);
  if (!path.empty()) find_place(resolved.recipe, path);  // raises if the schema has no such path
  int shown = 0;
  for (const auto& [set_path, history] : resolved.origins) {
    if (!path.empty() && !is_under(set_path, path)) continue;
    print(set_path + " = " + history.back().value + "    " + place_of(history.back()) + "\n");
    for (auto it = history.rbegin() + 1; it != history.rend(); ++it)
      print("    hides " + it->value + "    " + place_of(*it) + "\n");
    ++shown;
  }
  if (shown == 0) print(path + " is not set\n");
  if (path.empty())
    print("\nexec digest    " + resolved.exec_digest + "\nexpect digest  " +
          resolved.expect_digest + "\n");
  return 0;
}

}  // namespace reciperun
