// What commands say on stdout: to a pipe or a file as it is, to a terminal folded at its width.
#pragma once

#include <atomic>
#include <string>

namespace reciperun {

// For people.
void print(const std::string& text);
// For programs: JSON, HTML and the like, never folded.
void print_document(const std::string& text);

// Columns of the terminal on stdout; 0 if it is none: lines may be of any length.
int output_columns();

// Stopping by signals, for commands that take long.

// From this call on the first SIGINT or SIGTERM sets the flag it returns, and the second ends the
// process at once.
std::atomic<bool>& stop_on_signals();

}  // namespace reciperun
