// How well a detector finds objects, as HTML: precision by recall, and a table of categories.
#pragma once

#include <string>

#include "tools/recipe_run/report/report.h"

namespace reciperun {

// A section with both for each trial; "" without any.
std::string detections_section(const std::vector<TrialDetections>& trials);

}  // namespace reciperun
