// The commands about published sources: do recipes still say what is printed, and is what is
// printed consistent?
#pragma once

#include <string>

#include "tools/recipe_run/base/file.h"

namespace reciperun {

// Compares every expectation of every recipe with its cell and, if `documents` is given, the copied
// tables with the published documents in that folder. Returns kSourceChanged if anything differs.
int verify_sources_command(const fs::path& root, const std::string& documents);

// Prints what the published tables get wrong, and how the recipes answer it. Returns kSourceChanged
// if a finding has no answer.
int lint_sources_command(const fs::path& root);

}  // namespace reciperun
