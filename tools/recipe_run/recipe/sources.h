// Do the expectations still say what their sources print?
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "recipes/recipe.pb.h"

namespace reciperun {

struct SourceProblem {
  std::string expectation;  // id, "" for a problem of the source file itself
  std::string text;
};

// Re-reads every tab-separated source below `root` that an expectation points at: the file's
// digest, the cell, and its characters. Lines starting with '#' are comments; the header names the
// columns. Sources of other kinds are skipped.
std::vector<SourceProblem> verify_sources(const v1::Recipe& recipe,
                                          const std::filesystem::path& root);

}  // namespace reciperun
