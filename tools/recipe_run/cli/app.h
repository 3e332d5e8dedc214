// The command line of recipe-run.
#pragma once

#include "tools/recipe_run/cli/commands.h"

namespace reciperun {

// Parses and runs; prints errors to stderr. Returns the exit code. Never throws.
int run_app(int argc, const char* const* argv, const DriverFactory& make_driver);

}  // namespace reciperun
