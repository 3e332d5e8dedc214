// Do the expectations say what their sources print, and of what it was measured? Does every
// published result belong to one expectation, and to no other?
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tools/recipe_run/recipe/load.h"
#include "tools/recipe_run/recipe/tables.h"

namespace reciperun {

// The row of a recipe; nullptr if it is not at hand. An empty recipe is the expectation's own.
using FindRow = std::function<const v1::Expect*(const std::string& recipe, const std::string& row)>;
// The tables of a recipe, by the source's id.
using SourceFiles = std::map<std::string, SourceFile>;

struct SourceProblem {
  std::string expectation;  // id, "" for a problem of the source file itself
  std::string text;
  std::string path;          // of the recipe's field that is at fault, to look up who set it
  bool attribution = false;  // the cell is as printed, but was measured under other conditions
};

// What is wrong with a file goes to `problems`: another digest, or that it holds no tables (they
// end in ".tsv").
SourceFiles source_files(const v1::Recipe& recipe, const std::filesystem::path& root,
                         std::vector<SourceProblem>& problems);

// Re-reads every source below `root`: the files' digests, the cells that expectations point at,
// their characters, whether the expectations' numbers are the printed ones, and whether they were
// measured under the conditions that the expectations say (not of a recipe that declares itself not
// comparable). `rows` finds the rows of other recipes; where it does not, what depends on them is
// not checked.
std::vector<SourceProblem> verify_sources(const v1::Recipe& recipe,
                                          const std::filesystem::path& root,
                                          const FindRow& rows = {});

// Fails (Exit::kSourceChanged) with the place of the first problem. What --set changed is known to
// be other than published.
void require_sources(const ResolvedRecipe& resolved, const std::filesystem::path& root);

// The numbers that an expectation states, in the order in which its locator shows them: the value
// first, then what `also` must print. Empty for a row without a published value.
std::vector<double> stated_numbers(const v1::Expect& expect);

// Everything in which an expectation, its recipe and its cells disagree about whose number it is,
// as sentences: the table, the row and the column of a cell say on which machine, on how many
// devices, at which batch size, in which precision and as which percentile it was measured, and
// over how many runs. What is understood are the words of the copied tables (attribution.cpp).
std::vector<std::string> attribution_problems(const v1::Recipe& recipe, const v1::Expect& expect,
                                              const SourceFiles& files, const FindRow& rows);

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
