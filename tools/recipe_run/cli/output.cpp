#include "tools/recipe_run/cli/output.h"

#include <unistd.h>

#include <cstdio>

#include "tools/recipe_run/base/text.h"

namespace reciperun {

void print(const std::string& text) {
  const int columns = output_columns();
  print_document(columns > 0 ? folded(text, columns) : text);
}

void print_error(const std::string& text) {
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const std::string lines = terminal ? folded(text, assay::tools::terminal_columns(stderr)) : text;
  std::fwrite(lines.data(), 1, lines.size(), stderr);
}

void print_document(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

int output_columns() {
  return isatty(STDOUT_FILENO) != 0 ? assay::tools::terminal_columns(stdout) : 0;
}

}  // namespace reciperun
