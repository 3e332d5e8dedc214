// The whole plan of a recipe as text: what becomes of every row if it is run here, and what the run
// costs.
#pragma once

#include <optional>
#include <string>

#include "tools/recipe_run/judge/rehearsal.h"
#include "tools/recipe_run/recipe/load.h"
#include "tools/recipe_run/record/run_folder.h"
#include "tools/recipe_run/util/file.h"

namespace reciperun {

struct PlanFacts {
  Stage stage;
  RunPlace place;           // where an earlier run counts
  std::string cannot_run;   // "" or why the engine refuses the recipe: no model, no data
  std::string earlier_run;  // id of a run of this recipe, "" if there is none
  std::optional<Measurements> earlier;  // what it measured
  fs::path runs = "runs";               // where runs are kept: its free disk counts
  uint64_t parameters = 0;              // of the model, 0 if neither engine nor recipe says
};

std::string plan_text(const ResolvedRecipe& resolved, const PlanFacts& facts);

// What becomes of a row, said before anything slow starts.
struct RowFate {
  std::string word;  // "judged", "PROJECTED", "measured only", "NOT COMPARABLE", "NOT RUN"
  std::string why;   // or, for a row that will be judged, the best verdict that it can get
};
RowFate fate_of(const v1::Recipe& recipe, const v1::Expect& expect, const PlanFacts& facts);

// How many seeds a row needs; "" for rows that are no mean over trials, or have no published value.
std::string seeds_text(const v1::Recipe& recipe, const v1::Expect& expect);

// Hours of one trial, all its devices counted one by one.
struct TrialCost {
  double device_hours = 0;
  std::string from;  // what it was computed from
};
// On the published machine: its time to train, or its throughput. Absent if the recipe says
// neither.
std::optional<TrialCost> published_cost(const v1::Recipe& recipe);
// Here: finished trials of an earlier run, or its training throughput on one device (which trains
// the items of all devices one after another). Absent if there is neither.
std::optional<TrialCost> own_cost(const v1::Recipe& recipe, const Measurements& earlier);

// Bytes that a run leaves behind: one checkpoint per trial (weights, master copy and two moments in
// fp32), 40 bytes per training step, 8 per measured step.
double disk_bytes(const v1::Recipe& recipe, uint32_t trials, uint64_t parameters);

}  // namespace reciperun
