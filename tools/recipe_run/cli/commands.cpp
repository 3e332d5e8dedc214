// What several commands begin with, and the small ones: show, sources verify.
#include "tools/recipe_run/cli/commands.h"

#include <fmt/core.h>

#include <cctype>
#include <map>

#include "tools/recipe_run/cli/output.h"
#include "tools/recipe_run/recipe/facts.h"
#include "tools/recipe_run/recipe/load.h"
#include "tools/recipe_run/recipe/sources.h"
#include "tools/recipe_run/util/error.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Where `name` stands in `text` as a word of its own; npos if nowhere.
size_t mention(const std::string& text, const std::string& name) {
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end])))
      return at;
  }
  return std::string::npos;
}

// The path of the hparam that the engine's message names first; others it may list as known.
std::string path_at_fault(const v1::Model& model, const std::string& message) {
  std::string path = "model";
  size_t first = std::string::npos;
  for (const auto& [name, value] : model.hparam()) {
    const size_t at = mention(message, name);
    if (at >= first) continue;
    first = at;
    path = "model.hparam." + name;
  }
  return path;
}

std::string line_of(const Origin& origin) {
  return origin.line == 0 ? origin.file : fmt::format("{}:{}", origin.file, origin.line);
}

using Recipes = std::map<std::string, ResolvedRecipe>;

// Every recipe against the copied tables; returns the number of problems.
int verify_recipes(const Recipes& recipes, const fs::path& root) {
  const FindRow find_row = [&](const std::string& recipe, const std::string& row) {
    const auto found = recipes.find(recipe);
    return found == recipes.end() ? nullptr : find_expectation(found->second.recipe, row);
  };
  int problems = 0;
  for (const auto& [id, resolved] : recipes) {
    for (const auto& [expectation, text, path, attribution] :
         verify_sources(resolved.recipe, root, find_row)) {
      print(fmt::format("{}{}{}\n", resolved.place_of(path),
                        expectation.empty() ? "" : expectation + ": ", text));
      ++problems;
    }
  }
  return problems;
}

// Whether every result of the tables belongs to one expectation; returns the number of problems.
int verify_completeness(const Recipes& recipes, const fs::path& root) {
  std::vector<const v1::Recipe*> concrete;
  int expectations = 0;
  for (const auto& [id, resolved] : recipes) {
    if (resolved.recipe.abstract()) continue;
    concrete.push_back(&resolved.recipe);
    for (const v1::Expect& expect : resolved.recipe.expect()) expectations += expect.has_at();
  }
  const Completeness found = completeness_of(concrete, root);
  for (const std::string& problem : found.problems) print(problem + "\n");
  print(fmt::format("{} published values of {} recipes; {} of {} result cells claimed{}\n",
                    with_commas(expectations), concrete.size(), with_commas(found.claimed),
                    with_commas(found.results), found.problems.empty() ? ", each once" : ""));
  return static_cast<int>(found.problems.size());
}

}  // namespace

fs::path recipes_root(const std::string& given) {
  std::error_code ignored;
  if (!given.empty()) {
    require(fs::is_directory(given, ignored), "--recipes '" + given + "' is not a folder");
    return given;
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

std::string why_not_here(const ResolvedRecipe& resolved, uint32_t emulated_devices,
                         TrainerDriver& driver) {
  try {
    driver.check_offered(resolved.recipe);
  } catch (const Error& error) {
    const std::string path = path_at_fault(resolved.recipe.model(), error.what());
    throw Error(error.exit_code(),
                fmt::format("{}{}: {}", resolved.place_of(path), path, error.what()), error.hint());
  }
  if (emulated_devices > 0) driver.emulate(resolved.recipe, emulated_devices);
  return driver.why_not(resolved.recipe);
}

Exit show_command(const fs::path& root, const std::string& name, const std::string& path,
                  const std::vector<std::string>& sets) {
  ResolvedRecipe resolved = load_recipe(locate_recipe(root, name), sets);
  if (!path.empty()) find_place(resolved.recipe, path);  // raises if the schema has no such path
  std::string text;
  for (const auto& [set_path, history] : resolved.origins) {
    if (!path.empty() && !is_under(set_path, path)) continue;
    text += fmt::format("{} = {}    {}\n", set_path, history.back().value, line_of(history.back()));
    for (auto it = history.rbegin() + 1; it != history.rend(); ++it)
      text += fmt::format("    hides {}    {}\n", it->value, line_of(*it));
  }
  if (text.empty()) text = path + " is not set\n";
  if (path.empty())
    text += fmt::format("\nexec digest    {}\nexpect digest  {}\n", resolved.exec_digest,
                        resolved.expect_digest);
  print(text);
  return Exit::kOk;
}

Exit sources_verify_command(const fs::path& root) {
  Recipes recipes;
  for (const std::string& id : recipe_ids(root)) recipes.emplace(id, load_recipe({root, id}));
  const int problems = verify_recipes(recipes, root) + verify_completeness(recipes, root);
  print(problems == 0 ? "All are as printed.\n"
                      : fmt::format("{} problem{}\n", problems, problems == 1 ? "" : "s"));
  return problems == 0 ? Exit::kOk : Exit::kSourceChanged;
}

}  // namespace reciperun
