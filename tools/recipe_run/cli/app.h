// The command line of recipe-run.
#pragma once

#include <filesystem>

#include "tools/recipe_run/cli/commands.h"
#include "tools/recipe_run/data_lock/sample.h"

namespace reciperun {

// Parses and runs; prints errors to stderr. Returns the exit code. Never throws. `program`: this
// program's file, started anew for every repeat of a measurement; "" measures in this process.
// `decoder`: of the images of data sets.
int run_app(int argc, const char* const* argv, const DriverFactory& make_driver,
            const std::filesystem::path& program = {}, const PictureDecoder& decoder = {});

}  // namespace reciperun
