// Records of uncompressed labelled images (sdk/data/FORMAT.md) as samples:
//   image  f32 [H, W, C], augmented and normalised
//   label  i32 [], padded with -1
// With "raw", bytes u8 [H, W, C], the label, and placement i32 [4] (see the configuration).
#pragma once

#include <string_view>

#include "sdk/data/augment/image.h"
#include "sdk/data/augment/image_transform.pb.h"
#include "sdk/data/transform.h"

namespace assay::data {

struct LabelledImages {
  ImageShape shape;     // of every image
  int64_t classes = 0;  // labels are 0 to classes - 1
};

// kInvalid when the configuration makes no sense, naming the key.
Transform make_image_transform(const LabelledImages& images, const ImageTransformConfig& config);

}  // namespace assay::data
