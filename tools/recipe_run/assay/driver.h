// The trainer driver over Assay's C ABI: the only place of recipe-run that knows an engine.
#pragma once

#include <memory>

#include "tools/recipe_run/run/trainer.h"

namespace reciperun {

// Error kUsage for a device that is none, kNotRun with the reason for one that cannot be used here.
std::unique_ptr<TrainerDriver> make_assay_driver(const std::string& device, uint32_t threads);

}  // namespace reciperun
