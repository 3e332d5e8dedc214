// A model that the engine refuses, told with the line of the recipe that is at fault.
#pragma once

#include "tools/recipe_run/recipe/load.h"
#include "tools/recipe_run/run/trainer_driver.h"

namespace reciperun {

// TrainerDriver::check_model; its Error begins with the place of the hparam it names, or of the
// model.
void check_model(const ResolvedRecipe& resolved, const TrainerDriver& driver);

// Checks the model, sets up the emulation of so many devices (0: none), and only then asks
// TrainerDriver::why_not. Plans and runs both begin with it.
std::string why_not_here(const ResolvedRecipe& resolved, uint32_t emulated_devices,
                         TrainerDriver& driver);

}  // namespace reciperun
