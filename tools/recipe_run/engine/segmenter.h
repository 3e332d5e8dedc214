// A model that labels every pixel of an image, applied to batches of a loader.
#pragma once

#include <vector>

#include "recipes/recipe.pb.h"
#include "tools/recipe_run/engine/handles.h"
#include "tools/recipe_run/engine/pictures.h"
#include "tools/recipe_run/run/trainer_driver.h"

namespace reciperun::engine {

// A predictor on a copy of the model's present weights.
class Segmenter {
 public:
  // `batch`: the largest number of images at once.
  Segmenter(const assay_model* model, const v1::Recipe& recipe, int64_t batch);

  // Labels the first `count` images of a loader's batch, image [n, P, P, 1] and target
  // [n, S, S, 2]. The results have no names yet.
  std::vector<SegmentedImage> label(const assay_tensor* const* batch, int64_t count);

 private:
  Predictor predictor_;
  Slot slot_;
};

}  // namespace reciperun::engine
