// `recipe-run scaling`: the weak-scaling model, held against the published tables, and its
// forecasts.
#include <cstdio>

#include "tools/recipe_run/cli/commands.h"
#include "tools/recipe_run/scaling/forecast.h"
#include "tools/recipe_run/scaling/study.h"

namespace reciperun {

int scaling_command(const fs::path& root, bool check, int devices) {
  const PublishedScaling published = read_published_scaling(root);
  const std::string text =
      check ? study_text(study_scaling(published)) : forecast_text(published, devices);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

}  // namespace reciperun
