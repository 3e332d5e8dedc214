// Records of grey images with a mask of two classes as samples for segmentation without padding:
//   image   f32 [padded, padded, 1]
//   target  f32 [size, size, 2], the classes of the middle of the image; zero for images without
//           a mask
// A record holds "image" and "mask" (height x width bytes each, a mask of 0 and 255 only), "height"
// and "width". Class 0 is black in the mask, class 1 white. Between two classes the interpolated
// weights are cut at 0.5: from half on a pixel belongs to the class, and halves belong to both.
//
// This is the preprocessing of the published U-Net for micrographs, to the bit where it is not
// random: what it draws, it draws from our generator.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sdk/base/config.h"
#include "sdk/data/augment/bilinear.h"
#include "sdk/data/transform.h"

namespace assay::data {

// Target of a pixel between four of `classes`, 0 (black) or 1 (white): [1, 0], [0, 1], or [1, 1]
// where they weigh the same.
std::array<float, 2> target_between(const uint8_t* classes, int columns, const AxisSample& y,
                                    const AxisSample& x);

// Steps run in the order of these keys. assay_data.h says the same to callers.
struct MicrographTransformConfig {
  // Pixel p becomes p * scale + offset.
  double scale = 1 / 127.5;
  double offset = -1;
  // Image and mask are resized to `size` x `size` (bilinear, TensorFlow 1's rule), then surrounded
  // by zeros to `padded` x `padded`: grey in the image, class 0 in the mask.
  int32_t size = 388;
  int32_t padded = 572;
  // Random steps on the padded image and mask. Leave them out for evaluation.
  float flip_horizontal = 0;
  float flip_vertical = 0;
  float max_cut = 0;
  float max_brightness = 0;
  std::vector<float> clip;
  void fields(ConfigFields& f);
};

// kInvalid when the configuration makes no sense, naming the key.
Transform make_micrograph_transform(const MicrographTransformConfig& config);

}  // namespace assay::data
