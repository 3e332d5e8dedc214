// The trainer driver over Assay's public C interface.
#pragma once

#include <memory>

#include "tools/recipe_run/run/trainer_driver.h"

namespace reciperun {

// `threads`: per kernel; 0 = as many as this process may use.
std::unique_ptr<TrainerDriver> make_assay_driver(uint32_t threads);

}  // namespace reciperun
