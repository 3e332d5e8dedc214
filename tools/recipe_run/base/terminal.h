#pragma once

#include <cstdio>

namespace reciperun {

// Columns of the terminal behind `stream`; 80 if it does not say.
int terminal_columns(std::FILE* stream);

}  // namespace reciperun
