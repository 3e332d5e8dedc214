// The frame of the small programs: what a failure prints and returns.
#pragma once

#include "tools/common/abi.h"

namespace assay::tools {

// Calls run(argc, argv) and returns its exit code. An exception becomes "<name>: <its message>" on
// stderr and the exit code of its kind.
int run_program(const char* name, Exit (*run)(int, char**), int argc, char** argv);

}  // namespace assay::tools
