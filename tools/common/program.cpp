// CLI11 parses; what it throws becomes the texts and exits that all programs share.
#include "tools/common/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
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

void add_options(const CLI::App& app, std::vector<std::string>& names) {
  for (const CLI::Option* option : app.get_options())
    for (const std::string& known : option->get_lnames()) names.push_back("--" + known);
}

std::string suggestion(const std::string& written, const std::vector<std::string>& names) {
  const std::string meant = closest(written, names);
  return meant.empty() ? "." : fmt::format("; did you mean \"{}\"?", meant);
}

// `written` is an option of none of the commands that were given, or stands before its own.
void say_unknown_option(const CLI::App& app, const std::string& written) {
  const std::string option = written.substr(0, written.find('='));
  std::vector<std::string> names;
  std::string command = app.get_name();
  add_options(app, names);  // which commands take as well, if they fall through
  for (const CLI::App* next = &app; !next->get_subcommands().empty();) {
    next = next->get_subcommands().front();
    command += " " + next->get_name();
    add_options(*next, names);
  }
  const bool is_early = std::find(names.begin(), names.end(), option) != names.end();
  fmt::print(stderr, "{}: {} Run with --help for all.\n", command,
             is_early
                 ? fmt::format("\"{}\" belongs behind the command.", option)
                 : fmt::format("there is no option \"{}\"{}", option, suggestion(option, names)));
}

}  // namespace

Exit explain(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return static_cast<Exit>(app.exit(error));
  const auto commands = app.get_subcommands([](const CLI::App* command) {
    return !command->get_group().empty();  // without a group they are not for users
  });
  const std::vector<std::string> unknown = app.remaining(true);
  const auto find = [&](bool option) {
    return std::find_if(unknown.begin(), unknown.end(), [option](const std::string& written) {
      return written.starts_with("-") == option;
    });
  };
  const auto word = find(false), option = find(true);
  if (!commands.empty() && app.get_subcommands().empty() && word != unknown.end()) {
    std::vector<std::string> names;
    names.reserve(commands.size());
    for (const CLI::App* command : commands) names.push_back(command->get_name());
    fmt::print(stderr, "{}: there is no command \"{}\"{} There are {}. Run with --help for more.\n",
               app.get_name(), *word, suggestion(*word, names), fmt::join(names, ", "));
    return Exit::kUsage;
  }
  if (option != unknown.end() && option->starts_with("--")) {
    say_unknown_option(app, *option);
    return Exit::kUsage;
  }
  app.exit(error);
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
