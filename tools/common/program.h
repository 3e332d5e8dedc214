// The frame of the small programs: what a failure prints and returns.
#pragma once

#include <CLI/CLI.hpp>

#include "tools/common/abi.h"

namespace assay::tools {

// Prints the help that was asked for, or what is wrong with the command line; for an unknown
// command which there are.
Exit explain(const CLI::App& app, const CLI::ParseError& error);

// Calls run(argc, argv) and returns its exit code. An exception becomes "<name>: <its message>" on
// stderr and the exit code of its kind.
int run_program(const char* name, Exit (*run)(int, char**), int argc, char** argv);

}  // namespace assay::tools
