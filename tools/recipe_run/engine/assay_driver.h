// The trainer driver over Assay's C ABI: the only place of recipe-run that knows an engine.
#pragma once

#include <memory>

#include "tools/recipe_run/run/trainer_driver.h"

namespace reciperun {

// Error kUsage for a device that is none, kNotRun with the reason for one that cannot be used here.
std::unique_ptr<TrainerDriver> make_assay_driver(const DriverOptions& options);

}  // namespace reciperun
