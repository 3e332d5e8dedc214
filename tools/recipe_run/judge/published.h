// What an expectation says about its row as numbers: the published side, the margin, the statistic.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "recipes/recipe.pb.h"
#include "tools/recipe_run/judge/rules.h"

namespace reciperun {

// The number that the source prints: mean, single value, extreme, ratio, tail or standard
// deviation.
std::optional<double> published_value(const v1::Expect& expect);

// Decimals of the printed number.
int published_decimals(const v1::Expect& expect);

// The published runs behind a row over trials, with the spread of the row that lends one. The runs
// of a row over folds are seeds, over whose folds the source averages.
Published published_runs(const v1::Recipe& recipe, const v1::Expect& expect);

// "0.934", "77.150 ± 0.098", "—".
std::string published_text(const v1::Expect& expect);

// The margin as the rules take it: in the row's unit over trials, as a fraction of the published
// value where times and rates are compared. Where the expectation gives none: 0.30 points, 0.005
// Dice, 0.03 loss; and, better never being outside, 5 % of throughputs, 10 % of times and latencies
// (15 % from p99), 3 % of ratios (5 % across nodes).
Tolerance tolerance_of(const v1::Recipe& recipe, const v1::Expect& expect);

// "±0.30", "−5 %"; "" where the rule has its own interval.
std::string margin_text(Statistic statistic, const Tolerance& tolerance);

// What the values of a row are, so that another run's can be held against them.
Statistic statistic_of(const v1::Expect& expect);

// "accuracy", "stability across seeds", "time to train", "training throughput", "inference
// throughput", "latency", "scaling".
std::string group_of(const v1::Recipe& recipe, const v1::Expect& expect);

}  // namespace reciperun
