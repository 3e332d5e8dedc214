#include "tools/recipe_run/verdict/hardware.h"

namespace reciperun {

std::string other_hardware(const v1::Recipe& recipe, const std::string& device) {
  const v1::Platform& platform = recipe.platform();
  if (platform.device().empty()) return "the source does not say what it ran on";
  if (device == platform.device()) return "";
  for (const std::string& same : platform.same_class()) {
    if (device.find(same) != std::string::npos) return "";
  }
  return device + " is not " + platform.device();
}

}  // namespace reciperun
