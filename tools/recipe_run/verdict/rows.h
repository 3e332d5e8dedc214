// From a recipe's expectations and a run's measurements to the rows of a report.
#pragma once

#include <string>
#include <vector>

#include "recipes/recipe.pb.h"
#include "tools/recipe_run/verdict/measurements.h"
#include "tools/recipe_run/verdict/rules.h"

namespace reciperun {

struct Row {
  std::string id;
  std::string group;  // expectation.h
  std::string title;
  std::string unit;
  std::string published;  // as text; "—" if there is none
  std::string published_n;
  std::string measured;
  std::string measured_n;
  std::string delta;
  std::string interval;
  std::string margin;
  Judgement judgement;
  Evidence evidence = Evidence::kMeasured;
  bool gate = false;
  // Suspect source, noise warnings, the true percentile beside a published estimator.
  std::string note;
  std::vector<double> values;  // measured, in the row's unit: one per trial or repeat
  Statistic statistic = Statistic::kMean;
  Tolerance tolerance;
  std::string unfit;  // "" or why a timing cannot be judged although it was measured
};

// One row per expectation, in the recipe's order, judged and Holm-corrected.
std::vector<Row> make_rows(const v1::Recipe& recipe, const Measurements& measurements);

// What the gate rows say together. `require`: rows not run count too.
Exit exit_of_rows(const std::vector<Row>& rows, bool require);

}  // namespace reciperun
