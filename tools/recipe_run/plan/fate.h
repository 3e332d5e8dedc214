// What will become of a row if the recipe is run here, and why: known before anything slow starts.
#pragma once

#include <string>
#include <vector>

#include "recipes/recipe.pb.h"

namespace reciperun {

// What this machine offers to a recipe.
struct PlanMachine {
  std::string title;  // as in run records
  uint32_t devices = 1;
  uint32_t emulated_devices = 0;  // asked for; 0 = none
  std::string cannot_run;         // "" or why the engine refuses the recipe: no such model, no data
};

enum class Fate {
  kJudged,         // will be measured and held against the published value
  kMeasuredOnly,   // no published value
  kProjected,      // computed from measured throughput
  kNotComparable,  // will be measured, but says nothing about the published value
  kNotRun,
};

// "judged", "measured only", "PROJECTED", ...
std::string fate_word(Fate fate);

struct RowFate {
  const v1::Expect* expect = nullptr;
  Fate fate = Fate::kJudged;
  std::string why;  // "" for kJudged and kMeasuredOnly
};

// One per expectation, in the recipe's order.
std::vector<RowFate> row_fates(const v1::Recipe& recipe, const PlanMachine& machine);

}  // namespace reciperun
