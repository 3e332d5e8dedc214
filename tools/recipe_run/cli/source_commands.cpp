#include "tools/recipe_run/cli/source_commands.h"

#include <map>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/cli/output.h"
#include "tools/recipe_run/lint/answers.h"
#include "tools/recipe_run/lint/lint.h"
#include "tools/recipe_run/recipe/load.h"
#include "tools/recipe_run/sources/document.h"
#include "tools/recipe_run/sources/verify.h"

namespace reciperun {
namespace {

struct Tally {
  int recipes = 0;
  int expectations = 0;
  int problems = 0;
};

// Every recipe against the copied tables.
Tally verify_recipes(const fs::path& root) {
  Tally tally;
  for (const std::string& id : recipe_ids(root)) {
    const ResolvedRecipe resolved = load_recipe({root, id});
    for (const SourceProblem& problem : verify_sources(resolved.recipe, root)) {
      const Origin* origin = find_origin(resolved.origins, problem.path);
      print((origin == nullptr ? id : origin->place()) + ": " +
            (problem.expectation.empty() ? "" : problem.expectation + ": ") + problem.text + "\n");
      ++tally.problems;
    }
    if (resolved.recipe.abstract()) continue;
    ++tally.recipes;
    for (const v1::Expect& expect : resolved.recipe.expect()) tally.expectations += expect.has_at();
  }
  return tally;
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
  Tally tally = verify_recipes(root);
  if (!documents.empty()) tally.problems += verify_documents(root, documents);
  print(std::to_string(tally.expectations) + " published values of " +
        std::to_string(tally.recipes) + " recipes: " +
        (tally.problems == 0 ? "all as printed" : std::to_string(tally.problems) + " problems") +
        "\n");
  return static_cast<int>(tally.problems == 0 ? Exit::kOk : Exit::kSourceChanged);
}

int lint_sources_command(const fs::path& root) {
  const lint::Corpus corpus = lint::load_corpus(root);
  const lint::Findings findings = lint::lint_sources(corpus);
  std::string heading;
  int unanswered = 0;
  for (const lint::Finding& finding : findings) {
    const std::string next = finding.file + ", " + finding.table;
    if (next != heading) print((heading.empty() ? "" : "\n") + next + "\n");
    heading = next;
    print("  " + pad_right(finding.check, 10) + "  " + finding.where + "\n" + std::string(14, ' ') +
          finding.text + "\n");
    const std::string answer = lint::answer_to(corpus, finding);
    print(std::string(14, ' ') +
          (answer.empty() ? "NOT ANSWERED by any recipe" : "answered by: " + answer) + "\n");
    unanswered += answer.empty();
  }
  print("\n" + std::to_string(findings.size()) + " findings in " +
        std::to_string(corpus.numbers.size()) + " published values, " +
        (unanswered == 0 ? "every one answered" : std::to_string(unanswered) + " not answered") +
        "\n");
  return static_cast<int>(unanswered == 0 ? Exit::kOk : Exit::kSourceChanged);
}

}  // namespace reciperun
