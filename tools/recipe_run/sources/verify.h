// Do the expectations still say what their sources print?
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "recipes/recipe.pb.h"
#include "tools/recipe_run/recipe/load.h"
#include "tools/recipe_run/sources/table_file.h"

namespace reciperun {

struct SourceProblem {
  std::string expectation;  // id, "" for a problem of the source file itself
  std::string text;
  std::string path;  // of the recipe's field that is at fault, to look up who set it
};

// A cell of a table, by position.
struct CellPlace {
  const SourceTable* table = nullptr;
  int row = 0;
  int column = 0;
};

// Where a locator points; nullopt with `problem` set if nowhere or at several rows.
std::optional<CellPlace> find_cell(const SourceFile& file, const v1::Locator& at,
                                   std::string& problem);

// Re-reads every tab-separated source below `root` that an expectation points at: the file's
// digest, the cell, its characters, and whether the expectation's numbers are the printed ones.
// Sources of other kinds are skipped.
std::vector<SourceProblem> verify_sources(const v1::Recipe& recipe,
                                          const std::filesystem::path& root);

// Fails (Exit::kSourceChanged) with the place of the first problem.
void require_sources(const ResolvedRecipe& resolved, const std::filesystem::path& root);

// The numbers that an expectation states, in the order in which its locator shows them: the value
// first, then what `also` must print. Empty for a row without a published value.
std::vector<double> stated_numbers(const v1::Expect& expect);

}  // namespace reciperun
