// `recipe-run scaling`: the weak-scaling model, held against the published tables, and its
// forecasts.

#include "tools/recipe_run/cli/commands.h"
#include "tools/recipe_run/cli/output.h"
#include "tools/recipe_run/scaling/forecast.h"
#include "tools/recipe_run/scaling/study.h"

namespace reciperun {

int scaling_command(const fs::path& root, bool check, int devices) {
  const PublishedScaling published = read_published_scaling(root);
  const std::string text = check ? study_text(study_scaling(published), output_columns())
                                 : forecast_text(published, devices);
  print(text);
  return 0;
}

}  // namespace reciperun
