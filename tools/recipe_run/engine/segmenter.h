// A model that labels every pixel of an image, applied: to batches of a loader, to files.
#pragma once

#include <vector>

#include "recipes/recipe.pb.h"
#include "tools/recipe_run/engine/handles.h"
#include "tools/recipe_run/engine/pictures.h"
#include "tools/recipe_run/run/trainer_driver.h"

namespace reciperun::engine {

inline constexpr int kMicrographSide = 512;  // of the published slices, and so of their predictions

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

// Labels a split of a converted data set, prepared as the recipe prepares what it is evaluated on.
std::vector<SegmentedImage> segment_split(const assay_context* context, const assay_model* model,
                                          const v1::Recipe& recipe, const fs::path& folder,
                                          std::string_view split, const Tick& tick);

// The same for slices in a picture file or in a folder of them, in the order of their names. Error
// kDataMismatch for what cannot be read or has another size, naming the file and page.
std::vector<SegmentedImage> segment_files(const assay_context* context, const assay_model* model,
                                          const v1::Recipe& recipe, const fs::path& source,
                                          const Tick& tick);

}  // namespace reciperun::engine
