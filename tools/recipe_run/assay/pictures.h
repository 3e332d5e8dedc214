// What a model that labels pixels makes of its evaluation data, as pictures to look at.
#pragma once

#ifdef ASSAY_OPENCV
#include <opencv2/core/mat.hpp>
#endif
#include <span>
#include <string>
#include <vector>

#include "tools/recipe_run/assay/objects.h"

namespace reciperun::engine {

// One image of two classes: 0 drawn black, 1 white.
struct SegmentedImage {
  std::string name;            // of the file, without extension
  int side = 0;                // all planes are side x side
  std::vector<float> image;    // in [-1, 1]
  std::vector<uint8_t> label;  // class of each pixel; means nothing for images without a mask
  std::vector<uint8_t> predicted;

  // The place of a pixel in the planes.
  size_t at(int row, int column) const {
    return static_cast<size_t>(row) * static_cast<size_t>(side) + static_cast<size_t>(column);
  }
};

// Labels the first `count` images of a loader's batch, image [n, P, P, 1] and target [n, S, S, 2].
// The results have no names yet.
std::vector<SegmentedImage> segmented(Forward& model, const assay_tensor* const* batch,
                                      int64_t count);

// Whether this build can write pictures (with OpenCV).
bool can_write_pictures();

// <folder>/<name>.png each: image, label, prediction and errors side by side; class 0 predicted
// where there is none is orange, class 0 missed is blue. Creates the folder. Error kCrashed if that
// fails.
void write_pictures(const fs::path& folder, std::span<const SegmentedImage> images);

#ifdef ASSAY_OPENCV
// Blue, green and red. Error kCrashed if it cannot be written.
void write_picture(const fs::path& file, const cv::Mat& picture);
#endif

}  // namespace reciperun::engine
