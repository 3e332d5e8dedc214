// How many runs: power of the one-sided pooled t test at 5 %, and what equivalence costs.
#pragma once

#include "tools/recipe_run/statistics/summary.h"

namespace reciperun {

// Probability that k own runs reveal a true drop of `drop`, the published sd taken as exact.
double power(const Summary& published, int k, double drop);

// Smallest number of own runs with power >= 0.9; 0 if not even `limit` are enough.
int runs_for_90_percent(const Summary& published, double drop, int limit = 1000);

// Factor by which the true sd may exceed one estimated from n runs, at 80 % confidence.
double sd_upper_factor(int n);

// Probability of an equivalence verdict from k own runs if nothing is wrong (pooled variance).
double equivalence_power(const Summary& published, int k, double margin);

}  // namespace reciperun
