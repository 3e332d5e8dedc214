// The charts and pictures of a report, as HTML.
#pragma once

#include <string>

#include "tools/recipe_run/report/report.h"

namespace reciperun {

// A section with the charts of a report, one with its detections and one with its pictures; ""
// without any.
std::string plots_of(const Report& report);

}  // namespace reciperun
