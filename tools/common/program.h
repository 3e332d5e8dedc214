// The frame of the small programs: what a failure prints and returns.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "tools/common/error.h"

namespace assay::tools {

// Prints the help that was asked for, or what is wrong with the command line; for an unknown
// command the one that was probably meant, and which there are.
Exit explain(const CLI::App& app, const CLI::ParseError& error);

// Calls run(argc, argv) and returns its exit code. An exception becomes "<name>: <its message>" on
// stderr, with its hint below, and the exit code of its kind.
int run_program(const char* name, const std::function<Exit(int, const char* const*)>& run, int argc,
                const char* const* argv);

}  // namespace assay::tools
