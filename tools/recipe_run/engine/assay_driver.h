// The trainer driver over Assay's C ABI: the only place of recipe-run that knows an engine.
#pragma once

#include <cstdint>
#include <memory>

#include "tools/recipe_run/run/trainer_driver.h"

namespace reciperun {

// threads 0: every core this process may use.
std::unique_ptr<TrainerDriver> make_assay_driver(uint32_t threads);

}  // namespace reciperun
