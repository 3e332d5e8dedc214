// What the recipes say to the findings of lint-sources. A finding that no recipe answers would let
// a wrong number pass for a published one.
#pragma once

#include <string>

#include "tools/recipe_run/lint/lint.h"

namespace reciperun::lint {

// How the recipes of the table answer a finding, "" if none does:
//
//   ratio, order, tail, equal, identity,   `suspect` on a row that the finding is about
//   time, copies, spread, sources          (of copies also the number of runs behind the value, of
//                                          spreads also whose spread stands in)
//   rounding, sample                       `rounding` on a row of the table
//   estimator                              a `tail` with an estimator that is no percentile
//   unit                                   a scale of the standard deviation
//   text, settings                         a `deviation` of that setting, in a recipe of the
//   document and,
//                                          if the sentence is about a machine, of that machine
//   difference                             needs none: both rows are judged by themselves
std::string answer_to(const Corpus& corpus, const Finding& finding);

}  // namespace reciperun::lint
