// The held-out photographs in which a detector misses most, as pictures to look at.
#pragma once

#include <string>
#include <vector>

#include "tools/recipe_run/assay/objects.h"

namespace reciperun::engine {

// <folder>/<rank>-<number of the image>.png: the images of `held_out` in which most objects are
// missed, the worst first, as the model sees them, with the boxes that it is sure of by 0.3 and the
// objects that are there. `held_out` gives a detector's batches with "origin", in order;
// `preparation` is its transform. Creates the folder. Error kCrashed if a picture cannot be
// written. Without OpenCV it does nothing.
void draw_worst_misses(const fs::path& folder, assay_loader* held_out, Forward& model,
                       const std::string& preparation, const std::vector<std::string>& names);

}  // namespace reciperun::engine
