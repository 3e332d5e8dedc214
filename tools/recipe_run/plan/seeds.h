// How many trials a row needs, said before any is run.
#pragma once

#include <string>

#include "recipes/recipe.pb.h"

namespace reciperun {

// Own runs for 90 % power against a drop of the margin, with the two cautions: the published spread
// is itself an estimate, and showing equivalence costs more than finding a drop. "" for rows that
// are not over trials, or have no published value.
std::string seeds_text(const v1::Recipe& recipe, const v1::Expect& expect, uint32_t count);

// "p99 needs 368 steps, the bench has 100", or "".
std::string samples_text(const v1::Recipe& recipe, const v1::Expect& expect);

}  // namespace reciperun
