// Which part of an image a sample shows.
#pragma once

#include "sdk/base/philox.h"
#include "sdk/data/augment/image.h"

namespace assay::data {

struct CropRange {
  float min_area = 0.08f, max_area = 1;             // share of the image
  float min_aspect = 0.75f, max_aspect = 4 / 3.0f;  // width / height
};

// The random window of "Going deeper with convolutions" (Szegedy et al., CVPR 2015), as NVIDIA
// DALI draws it: area uniform, aspect log-uniform, sides rounded to pixels, taken if it fits and
// its rounded aspect is in range; ten attempts. Images too wide or too tall for any window of the
// smallest area give the largest window of allowed aspect, as do ten failures. Draws area and
// aspect per attempt, then top and left.
Rectangle random_resized_crop(int height, int width, const CropRange& range, PhiloxStream& random);

struct ImageSize {
  int height = 0, width = 0;
};

// The size whose shorter side is `side`, of the same aspect; the longer one rounded half up.
ImageSize resize_shorter(int height, int width, int side);

// Where a window of `side` begins in the middle of `size`; halves round up.
constexpr int centre_offset(int size, int side) { return (size - side + 1) / 2; }

}  // namespace assay::data
