// The whole plan of a recipe as text.
#pragma once

#include <optional>
#include <string>

#include "tools/recipe_run/base/file.h"
#include "tools/recipe_run/plan/fate.h"
#include "tools/recipe_run/recipe/load.h"
#include "tools/recipe_run/verdict/measurements.h"

namespace reciperun {

struct PlanFacts {
  PlanMachine machine;
  std::string earlier_run;              // id of a run of this recipe, "" if there is none
  std::optional<Measurements> earlier;  // what it measured
  fs::path runs = "runs";               // where runs are kept: its free disk counts
};

std::string plan_text(const ResolvedRecipe& resolved, const PlanFacts& facts);

}  // namespace reciperun
