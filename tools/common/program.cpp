#include "tools/common/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <exception>
#include <string>
#include <vector>

namespace assay::tools {

Exit explain(const CLI::App& app, const CLI::ParseError& error) {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  const std::vector<std::string> unknown = app.remaining();
  const bool parsed_one = !app.get_subcommands().empty();
  if (error.get_exit_code() == 0 || commands.empty() || parsed_one || unknown.empty())
    return app.exit(error) == 0 ? kDone : kUsage;
  std::vector<std::string> names;
  names.reserve(commands.size());
  for (const CLI::App* command : commands) names.push_back(command->get_name());
  fmt::print(stderr, "{}: there is no command \"{}\"; there are {}. Run with --help for more.\n",
             app.get_name(), unknown.front(), fmt::join(names, ", "));
  return kUsage;
}

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
