#include "tools/recipe_run/cli/source_commands.h"

#include <map>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/cli/output.h"
#include "tools/recipe_run/recipe/facts.h"
#include "tools/recipe_run/recipe/load.h"
#include "tools/recipe_run/sources/completeness.h"
#include "tools/recipe_run/sources/document.h"
#include "tools/recipe_run/sources/verify.h"

namespace reciperun {
namespace {

// "1,127".
std::string with_commas(int number) {
  std::string text = std::to_string(number);
  for (size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, ",");
  return text;
}

using Recipes = std::map<std::string, ResolvedRecipe>;

Recipes load_all(const fs::path& root) {
  Recipes recipes;
  for (const std::string& id : recipe_ids(root)) recipes.emplace(id, load_recipe({root, id}));
  return recipes;
}

// Every recipe against the copied tables; returns the number of problems.
int verify_recipes(const Recipes& recipes, const fs::path& root) {
  const FindRow find_row = [&](const std::string& recipe, const std::string& row) {
    const auto found = recipes.find(recipe);
    return found == recipes.end() ? nullptr : find_expectation(found->second.recipe, row);
  };
  int problems = 0;
  for (const auto& [id, resolved] : recipes) {
    for (const SourceProblem& problem : verify_sources(resolved.recipe, root, find_row)) {
      const Origin* origin = find_origin(resolved.origins, problem.path);
      print((origin == nullptr ? id : origin->place()) + ": " +
            (problem.expectation.empty() ? "" : problem.expectation + ": ") + problem.text + "\n");
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
  print(with_commas(expectations) + " published values of " + std::to_string(concrete.size()) +
        " recipes; " + with_commas(found.claimed) + " of " + with_commas(found.results) +
        " result cells claimed" + (found.problems.empty() ? ", each once" : "") + "\n");
  return static_cast<int>(found.problems.size());
}

// The copied tables against the published documents; returns the number of problems.
int verify_documents(const fs::path& root, const fs::path& documents) {
  int problems = 0;
  for (const auto& entry : fs::directory_iterator(root / "sources")) {
    const SourceFile file = parse_source(entry.path().string(), read_file(entry.path()));
    if (file.document.empty()) continue;
    const std::vector<std::string> found =
        document_problems(file, read_file(documents / file.document));
    for (const std::string& problem : found) print(entry.path().string() + ": " + problem + "\n");
    problems += static_cast<int>(found.size());
    if (found.empty())
      print(entry.path().filename().string() + ": " + std::to_string(file.tables.size()) +
            " tables as in " + file.document + "\n");
  }
  return problems;
}

}  // namespace

int verify_sources_command(const fs::path& root, const std::string& documents) {
  const Recipes recipes = load_all(root);
  int problems = verify_recipes(recipes, root);
  if (!documents.empty()) problems += verify_documents(root, documents);
  problems += verify_completeness(recipes, root);
  print(problems == 0 ? "All are as printed.\n" : std::to_string(problems) + " problems\n");
  return static_cast<int>(problems == 0 ? Exit::kOk : Exit::kSourceChanged);
}

}  // namespace reciperun
