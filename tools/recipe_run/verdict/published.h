// The published side of an expectation as numbers.
#pragma once

#include <optional>
#include <string>

#include "recipes/recipe.pb.h"
#include "tools/recipe_run/statistics/summary.h"

namespace reciperun {

struct Published {
  // The printed number: mean, single value, extreme, ratio, tail or sd.
  std::optional<double> value;
  Summary summary;  // mean, sd and n where the source gives them; n = 0 if unknown
  bool has_spread = false;
  std::optional<Summary> lender;  // mean, sd and n of another recipe's row whose spread stands in
  int decimals = 3;               // of the printed number
};

Published published_side(const v1::Expect& expect);

// The expectation with this id, or nullptr.
const v1::Expect* find_expectation(const v1::Recipe& recipe, const std::string& id);

// "0.934", "77.150 ± 0.098", "—".
std::string published_text(const v1::Expect& expect);

}  // namespace reciperun
