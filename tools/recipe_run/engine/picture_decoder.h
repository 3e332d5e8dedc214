// Decodes image files for data.lock with OpenCV.
#pragma once

#include "tools/recipe_run/data_lock/sample.h"

namespace reciperun {

// Without a name and a function if this build has no OpenCV.
PictureDecoder make_picture_decoder();

}  // namespace reciperun
