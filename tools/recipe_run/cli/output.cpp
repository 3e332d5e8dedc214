#include "tools/recipe_run/cli/output.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "tools/recipe_run/util/text.h"

namespace reciperun {

void print(const std::string& text) {
  const int columns = output_columns();
  print_document(columns > 0 ? folded(text, columns) : text);
}

void print_document(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

int output_columns() {
  return isatty(STDOUT_FILENO) != 0 ? assay::tools::terminal_columns(stdout) : 0;
}

namespace {

std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set from a signal handler");

extern "C" void on_signal(int signal_number) {
  stop_requested = true;
  std::signal(signal_number, SIG_DFL);
}

}  // namespace

std::atomic<bool>& stop_on_signals() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  return stop_requested;
}

}  // namespace reciperun
