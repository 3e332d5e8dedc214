#include "tools/recipe_run/cli/app.h"
#include "tools/recipe_run/engine/assay_driver.h"

int main(int argc, char** argv) {
  return reciperun::run_app(argc, argv, reciperun::make_assay_driver);
}
