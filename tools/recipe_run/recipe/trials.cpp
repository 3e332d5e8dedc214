#include "tools/recipe_run/recipe/trials.h"

#include "tools/recipe_run/base/error.h"

namespace reciperun {
namespace {

// 0 if no data have folds.
uint32_t fold_count(const v1::Recipe& recipe) {
  for (const v1::DataRef& data : recipe.data()) {
    if (data.has_folds() && data.folds().k() > 0) return data.folds().k();
  }
  return 0;
}

}  // namespace

TrialPart trial_part(const v1::Recipe& recipe, uint64_t trial) {
  if (recipe.trials().unit() != "fold") return {0, trial};
  const uint32_t k = fold_count(recipe);
  if (k == 0) {
    throw Error(Exit::kUsage, "trials.unit is fold, but no data have folds",
                "give data.train.folds");
  }
  return {trial % k, trial / k};
}

std::string trial_title(const v1::Recipe& recipe, uint64_t trial) {
  const uint32_t k = fold_count(recipe);
  if (recipe.trials().unit() != "fold" || k == 0) return "seed " + std::to_string(trial);
  const TrialPart part = trial_part(recipe, trial);
  return "fold " + std::to_string(part.fold + 1) + " of " + std::to_string(k) + ", seed " +
         std::to_string(part.seed);
}

}  // namespace reciperun
