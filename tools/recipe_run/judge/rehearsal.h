// What a run would come to, before anything slow starts: the very gates and rules that judge a run
// are asked about one that is only imagined.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tools/recipe_run/judge/rows.h"

namespace reciperun {

// Where a run would take place.
struct Stage {
  std::string device;             // as in run records
  uint32_t devices = 1;           // that a bench can use
  uint32_t emulated_devices = 0;  // that one device would play; 0 = none
};

// The row as it would be judged if a run there found exactly what was published: the best that can
// become of it.
Row rehearse(const v1::Recipe& recipe, const v1::Expect& expect, const Stage& stage);

// How probably a row is REPRODUCED if nothing is wrong: both sides drawn anew with the published
// spread, and judged by the rules. The draws have a fixed seed.
struct Chance {
  double at_once = 0;      // by `seeds` runs
  double with_top_up = 0;  // by them and, while undecided, those of a top-up
};
// Absent where no spread is published or lent, and for rows that are no mean over trials.
// `spread_factor`: what the true spread is of the published one.
std::optional<Chance> chance_of_reproduced(const v1::Recipe& recipe, const v1::Expect& expect,
                                           uint32_t seeds, double spread_factor = 1);

// Fewest seeds that are REPRODUCED at once with this probability; 0 if more than 100 would be.
uint32_t seeds_for(double probability, const v1::Recipe& recipe, const v1::Expect& expect,
                   double spread_factor = 1);

}  // namespace reciperun
