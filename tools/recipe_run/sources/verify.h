// Do the expectations say what their sources print, and of what it was measured?
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "recipes/recipe.pb.h"
#include "tools/recipe_run/recipe/load.h"
#include "tools/recipe_run/sources/attribution.h"
#include "tools/recipe_run/sources/conditions.h"
#include "tools/recipe_run/sources/table_file.h"

namespace reciperun {

struct SourceProblem {
  std::string expectation;  // id, "" for a problem of the source file itself
  std::string text;
  std::string path;          // of the recipe's field that is at fault, to look up who set it
  bool attribution = false;  // the cell is as printed, but was measured under other conditions
};

// Where a locator points; nullopt with `problem` set if nowhere or at several rows.
std::optional<CellPlace> find_cell(const SourceFile& file, const v1::Locator& at,
                                   std::string& problem);

// The tables of a recipe, by the source's id. What is wrong with a file goes to `problems`: another
// digest, or that it holds no tables (they end in ".tsv").
std::map<std::string, SourceFile> source_files(const v1::Recipe& recipe,
                                               const std::filesystem::path& root,
                                               std::vector<SourceProblem>& problems);

// Re-reads every source below `root`: the files' digests, the cells that expectations point at,
// their characters, whether the expectations' numbers are the printed ones, and whether they were
// measured under the conditions that the expectations say (attribution.h; not of a recipe that
// declares itself not comparable). `rows` finds the rows of
// other recipes; where it does not, what depends on them is not checked.
std::vector<SourceProblem> verify_sources(const v1::Recipe& recipe,
                                          const std::filesystem::path& root,
                                          const FindRow& rows = {});

// Fails (Exit::kSourceChanged) with the place of the first problem. What --set changed is known to
// be other than published.
void require_sources(const ResolvedRecipe& resolved, const std::filesystem::path& root);

// The numbers that an expectation states, in the order in which its locator shows them: the value
// first, then what `also` must print. Empty for a row without a published value.
std::vector<double> stated_numbers(const v1::Expect& expect);

}  // namespace reciperun
