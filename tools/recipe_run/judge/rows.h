// From a recipe's expectations and a run's measurements to the rows of a report.
#pragma once

#include <string>
#include <vector>

#include "recipes/recipe.pb.h"
#include "tools/recipe_run/judge/rules.h"
#include "tools/recipe_run/record/measurements.h"

namespace reciperun {

struct Row {
  std::string id;
  std::string group;  // published.h
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
  std::string same_as;  // id of the row that counts for the same published number, "" for itself
  // Suspect source, noise warnings, the true percentile beside a published estimator.
  std::string note;
  std::vector<double> values;  // measured, in the row's unit: one per seed or repeat
  Statistic statistic = Statistic::kMean;
  Tolerance tolerance;
  std::string unfit;  // "" or why a timing cannot be judged although it was measured
};

// One row per expectation, in the recipe's order, judged and Holm-corrected.
std::vector<Row> make_rows(const v1::Recipe& recipe, const Measurements& measurements);

// One row by itself, without the correction.
Row make_row(const v1::Recipe& recipe, const v1::Expect& expect, const Measurements& measurements);

// Fills `delta` and `interval` of the row from its judgement.
void add_difference(Row& row);

// What the gate rows say together. `require`: rows not run count too.
Exit exit_of_rows(const std::vector<Row>& rows, bool require);

}  // namespace reciperun
