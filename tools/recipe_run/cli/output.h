// What commands say on stdout: to a pipe or a file as it is, to a terminal folded at its width.
#pragma once

#include <string>

namespace reciperun {

// For people.
void print(const std::string& text);
// The same on stderr.
void print_error(const std::string& text);
// For programs: JSON, HTML and the like, never folded.
void print_document(const std::string& text);

// Columns of the terminal on stdout; 0 if it is none: lines may be of any length.
int output_columns();

}  // namespace reciperun
