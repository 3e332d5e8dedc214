// What the number of a trial means.
#pragma once

#include <cstdint>
#include <string>

#include "recipes/recipe.pb.h"

namespace reciperun {

// With trials.unit "fold" the trial numbers 0 to k - 1 are the folds with seed 0, k to 2k - 1 the
// folds with seed 1, and so on; otherwise a trial's number is its seed.
struct TrialPart {
  uint64_t fold = 0, seed = 0;
};
// Error kUsage for folds of data that have none.
TrialPart trial_part(const v1::Recipe& recipe, uint64_t trial);

// For people: "seed 7", "fold 1 of 5, seed 0".
std::string trial_title(const v1::Recipe& recipe, uint64_t trial);

}  // namespace reciperun
