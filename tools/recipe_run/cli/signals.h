// Stopping by signals, for commands that take long.
#pragma once

#include <atomic>

namespace reciperun {

// From this call on the first SIGINT or SIGTERM sets the flag it returns, and the second ends the
// process at once.
std::atomic<bool>& stop_on_signals();

}  // namespace reciperun
