// The command about published sources: do recipes still say what is printed?
#pragma once

#include <string>

#include "tools/recipe_run/base/file.h"

namespace reciperun {

// Compares every expectation of every recipe with its cell, asks whether every published result
// belongs to exactly one of them and, if `documents` is given, compares the copied tables with the
// published documents in that folder. Returns kSourceChanged if anything differs.
int verify_sources_command(const fs::path& root, const std::string& documents);

}  // namespace reciperun
