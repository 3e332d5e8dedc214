// The pipeline of the data set isbi2012_em in the words of the engine.
#pragma once

#include <string>

#include "recipes/recipe.pb.h"

namespace reciperun::engine {

bool has_micrograph_pipeline(const v1::DataRef& data);

// The JSON text of the transform. Stages, in this order and each at most once: scale {by, offset},
// resize {to, filter: bilinear_legacy}, pad {to, value: 0}, random_flip {axis: horizontal},
// random_flip {axis: vertical}, random_crop_and_resize {max_cut}, random_brightness {max_delta},
// clip {to}. Error kUsage for anything else, and where one of the first three is missing.
std::string micrograph_transform(const v1::DataRef& data);

}  // namespace reciperun::engine
