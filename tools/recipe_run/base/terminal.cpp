#include "tools/recipe_run/base/terminal.h"

#include <sys/ioctl.h>

namespace reciperun {

int terminal_columns(std::FILE* stream) {
  winsize size = {};
  return ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace reciperun
