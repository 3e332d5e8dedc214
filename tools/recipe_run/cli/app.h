// The command line of recipe-run.
#pragma once

#include <filesystem>

#include "tools/recipe_run/cli/commands.h"

namespace reciperun {

// Parses and runs; prints errors to stderr. Returns the exit code. Never throws. `program`: this
// program's file, started anew for every repeat of a measurement; "" measures in this process.
int run_app(int argc, const char* const* argv, const DriverFactory& make_driver,
            const std::filesystem::path& program = {});

}  // namespace reciperun
