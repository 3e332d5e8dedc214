// What the tests of recipe-run through the real engine have in common.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "tools/recipe_run/assay/driver.h"
#include "tools/recipe_run/recipe/load.h"
#include "tools/recipe_run/report/report.h"
#include "tools/recipe_run/run/runner.h"
#include "tools/recipe_run/run/smoke.h"

namespace reciperun {

// Why the driver does not take the recipe, and its advice; "" if it does.
inline std::string refusal_by(TrainerDriver& driver, const v1::Recipe& recipe) {
  try {
    driver.check(recipe);
  } catch (const Error& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "";
}

struct RanRecipe {
  fs::path folder;
  Report report;
};

// What recipe-run makes of a recipe of ours, changed by `sets` and smoked or not, with data and
// runs below `root`.
inline RanRecipe ran(const fs::path& root, const std::string& id, std::vector<std::string> sets,
                     bool smoke) {
  sets.push_back("io.data_root=" + (root / "data").string());
  const RecipeFile file{fs::path(ASSAY_SOURCE_DIR) / "recipes", id};
  if (smoke) {
    const auto smoked = smoke_sets(load_recipe(file, sets).recipe, "cpu");
    sets.insert(sets.end(), smoked.begin(), smoked.end());
  }
  const ResolvedRecipe resolved = load_recipe(file, sets);
  const auto driver = make_assay_driver("cpu", 1);
  EXPECT_EQ(driver->why_not(resolved.recipe), "");
  RunOptions options;
  options.runs = (root / "runs").string();
  Progress progress(stderr, false, true);
  std::atomic<bool> stop{false};
  const RunOutcome outcome = run_recipe(resolved, options, *driver, progress, stop);
  EXPECT_EQ(outcome.exit, Exit::kOk);
  return {outcome.folder, make_report(RunRecord::open(outcome.folder))};
}

}  // namespace reciperun
