#include <filesystem>

#include "tools/recipe_run/assay/driver.h"
#include "tools/recipe_run/cli/app.h"

int main(int argc, char** argv) {
  std::error_code unknown;  // without /proc repeats are measured in this process
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", unknown);
  return reciperun::run_app(argc, argv, reciperun::make_assay_driver, self);
}
