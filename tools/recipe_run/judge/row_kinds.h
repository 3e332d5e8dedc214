// The kinds of rows: what each takes from the measurements, and which rule judges it. rows.cpp puts
// the parts together.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/recipe_run/judge/published.h"
#include "tools/recipe_run/judge/rows.h"
#include "tools/recipe_run/recipe/facts.h"

namespace reciperun {

struct RowContext {
  RowContext(const v1::Recipe& recipe, const v1::Expect& expect, const Measurements& measurements);

  // Decimals for numbers of ours beside the published one.
  int decimals() const;

  const v1::Recipe& recipe;
  const v1::Expect& expect;
  const Measurements& measurements;
  std::optional<double> published;
  Tolerance tolerance;
  double factor;  // from base units to the row's
};

// A number computed from measured rates, in the row's unit.
struct Projection {
  double value = 0;
  Interval interval;
};

// What the measurements say to a row, before anything is judged.
struct Measured {
  std::string missing;     // "" or why there is nothing to judge: NOT RUN,
  bool attempted = false;  // or INVALID, if it was measured and does not carry the row's value

  std::vector<double> values;            // in the row's unit: one per seed or repeat
  std::vector<double> denominator;       // of a ratio, beside the numerator's values
  std::optional<Projection> projection;  // instead of values: of a time that nobody waited for

  std::string text, count;   // of the columns "measured" and "n"
  std::string own_interval;  // of the values themselves, for rows that are only measured
  std::string note;

  std::vector<const BenchResult*> benches;  // that the values were measured by
  std::string incomparable;                 // "" or why the parts of the row do not belong together
  std::string unfit;                        // "" or why a timing does not count
};

Measured measure_trials(const RowContext& context);
Measured measure_time(const RowContext& context);
Measured measure_bench(const RowContext& context);
Measured measure_ratio(const RowContext& context);
// By the row's kind.
Measured measure(const RowContext& context);

// What trials that diverged owe to a row over trials; absent if they owe nothing.
std::optional<Judgement> judge_divergence(const RowContext& context);

// Why a row over trials was trained on another number of devices than published; "" if it was not.
std::string other_devices(const RowContext& context);

// What measured the throughput of a phase on so many devices; nullptr if nothing did.
const BenchResult* training_result(const v1::Recipe& recipe, const Measurements& measurements,
                                   const TrainingPhase& phase, uint32_t devices);

// A time that its phases' rates in items/s predict: the sum of items / rate. The interval is that
// of the rates, widened by the model's own error of 2 %. Held against the published pre-training
// times of ELECTRA, whose throughputs stand beside them, it is right within 0.6 % without any fit;
// where time is spent outside of steps (start-up, evaluation) it falls short by just that.
struct PhaseRate {
  double items = 0;
  double rate = 0;
  Interval interval;
};
Projection project_time(const std::vector<PhaseRate>& phases);

// "a; b", of what is not empty.
std::string joined_notes(const std::string& a, const std::string& b);

}  // namespace reciperun
