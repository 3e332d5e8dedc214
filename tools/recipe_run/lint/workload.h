// How long a recipe's training takes at the published throughput of the same machine.
#pragma once

#include <optional>

#include "tools/recipe_run/lint/corpus.h"

namespace reciperun::lint {

// Seconds at the upper end of what the printed rates allow; nullopt if no throughput of the same
// document, machine, precision, number of devices and batch size is published. `steps` > 0 asks for
// that many steps instead of the recipe's.
std::optional<double> seconds_at_published_rate(const Corpus& corpus, const v1::Recipe& recipe,
                                                const std::string& file, uint64_t steps = 0);

// What a unit of time has in seconds.
double seconds_in(const std::string& unit);

}  // namespace reciperun::lint
