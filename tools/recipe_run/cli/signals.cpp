#include "tools/recipe_run/cli/signals.h"

#include <csignal>

namespace reciperun {
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
