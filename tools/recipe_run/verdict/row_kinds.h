// The kinds of rows: what each takes from the measurements, and which rule judges it. rows.cpp puts
// the parts together.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/recipe_run/verdict/expectation.h"
#include "tools/recipe_run/verdict/measurements.h"
#include "tools/recipe_run/verdict/projection.h"
#include "tools/recipe_run/verdict/rows.h"

namespace reciperun {

struct RowContext {
  RowContext(const v1::Recipe& recipe, const v1::Expect& expect, const Measurements& measurements);

  // Decimals for numbers of ours beside the published one.
  int decimals() const;

  const v1::Recipe& recipe;
  const v1::Expect& expect;
  const Measurements& measurements;
  Published published;
  Tolerance tolerance;
  double factor;  // from base units to the row's
};

struct Measured {
  std::vector<double> values;               // in the row's unit: one per trial or repeat
  std::vector<double> denominator;          // of a ratio
  std::optional<Projection> projection;     // of a time that nobody waited for, in seconds
  std::vector<const BenchResult*> benches;  // that the values were measured by
  std::string incomparable;                 // "" or why the parts of the row do not belong together
  std::string missing;                      // "" or why there is nothing to judge
  // It was measured, but does not carry the row's value: INVALID, not NOT RUN.
  bool attempted = false;
};

// Each fills the measured columns of `row`.
Measured measure_trials(const RowContext& context, Row& row);
Measured measure_time(const RowContext& context, Row& row);
Measured measure_bench(const RowContext& context, Row& row);
Measured measure_scaling(const RowContext& context, Row& row);

// What trials that diverged owe to a row over trials; absent if they owe nothing.
std::optional<Judgement> judge_divergence(const RowContext& context);

Judgement compare_trials(const RowContext& context, const Measured& measured);
Judgement compare_time(const RowContext& context, const Measured& measured);
Judgement compare_bench(const RowContext& context, const Measured& measured);
Judgement compare_scaling(const RowContext& context, const Measured& measured);

// The repeats of the configuration that an expectation is about, or nullptr.
const BenchResult* result_of(const v1::Expect& expect, const Measurements& measurements);
// One value per repeat; empty with `why` set if the samples do not carry the estimate.
std::vector<double> bench_values(const v1::Recipe& recipe, const v1::Expect& expect,
                                 const BenchResult& bench, double factor, std::string& why);

}  // namespace reciperun
