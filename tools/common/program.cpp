#include "tools/common/program.h"

#include <fmt/format.h>

#include <exception>

namespace assay::tools {

int run_program(const char* name, Exit (*run)(int, char**), int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const Failure& failure) {
    fmt::print(stderr, "{}: {}\n", name, failure.what());
    return failure.exit_code();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", name, error.what());
    return kFailed;
  }
}

}  // namespace assay::tools
