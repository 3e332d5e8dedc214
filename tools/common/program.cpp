// CLI11 parses; what it throws becomes the texts and exits that all programs share.
#include "tools/common/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <exception>
#include <string>
#include <vector>

#include "tools/common/text.h"

namespace assay::tools {
namespace {

// On a terminal, folded at its width.
void say(const std::string& text) {
  const bool terminal = isatty(STDERR_FILENO) != 0;
  fmt::print(stderr, "{}", terminal ? folded(text, terminal_columns(stderr)) : text);
}

// One that the command which was given does not have.
Exit explain_option(const CLI::App& app, const std::string& written) {
  const CLI::App* command = &app;
  std::string name = app.get_name();
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    name += " " + command->get_name();
  }
  std::vector<std::string> names;
  for (const CLI::Option* option : command->get_options())
    for (const std::string& known : option->get_lnames()) names.push_back("--" + known);
  const std::string option = written.substr(0, written.find('=')), meant = closest(option, names);
  fmt::print(stderr, "{}: there is no option \"{}\"{} Run with --help for all.\n", name, option,
             meant.empty() ? "." : fmt::format("; did you mean \"{}\"?", meant));
  return Exit::kUsage;
}

}  // namespace

Exit explain(const CLI::App& app, const CLI::ParseError& error) {
  for (const std::string& written : app.remaining(true)) {
    if (error.get_exit_code() != 0 && written.starts_with("--"))
      return explain_option(app, written);
  }
  const auto commands = app.get_subcommands([](const CLI::App* command) {
    return !command->get_group().empty();  // without a group they are not for users
  });
  const std::vector<std::string> unknown = app.remaining();
  const bool parsed_one = !app.get_subcommands().empty();
  if (error.get_exit_code() == 0 || commands.empty() || parsed_one || unknown.empty())
    return app.exit(error) == 0 ? Exit::kOk : Exit::kUsage;
  std::vector<std::string> names;
  names.reserve(commands.size());
  for (const CLI::App* command : commands) names.push_back(command->get_name());
  const std::string meant = closest(unknown.front(), names);
  fmt::print(stderr, "{}: there is no command \"{}\"{} There are {}. Run with --help for more.\n",
             app.get_name(), unknown.front(),
             meant.empty() ? "." : fmt::format("; did you mean \"{}\"?", meant),
             fmt::join(names, ", "));
  return Exit::kUsage;
}

int run_program(const char* name, const std::function<Exit(int, const char* const*)>& run, int argc,
                const char* const* argv) {
  try {
    return static_cast<int>(run(argc, argv));
  } catch (const Error& error) {
    std::string hint = error.hint();
    if (hint.empty() && error.exit_code() == Exit::kInterrupted)
      hint = "run the same command again";
    say(fmt::format("{}: {}\n{}", name, error.what(),
                    hint.empty() ? "" : fmt::format("  {}\n", hint)));
    return static_cast<int>(error.exit_code());
  } catch (const std::exception& error) {
    say(fmt::format("{}: {}\n", name, error.what()));
    return static_cast<int>(Exit::kCrashed);
  }
}

}  // namespace assay::tools
