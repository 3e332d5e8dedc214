// Records of labelled JPEG images (sdk/data/FORMAT.md) as samples:
//   image  f32 [size, size, channels], red, green, blue
//   label  i32 [], padded with -1
// With "raw", bytes u8 [size, size, 3], the label, and placement i32 [4] (see the configuration).
//
// Pixels are bytes until normalisation: resizing rounds, as it does in the pipelines the published
// networks were trained with.
#pragma once

#include "sdk/data/augment/jpeg_transform.pb.h"
#include "sdk/data/transform.h"

namespace assay::data {

// Labels are 0 to classes - 1. kInvalid when the configuration makes no sense, naming the key.
Transform make_jpeg_transform(int64_t classes, const JpegTransformConfig& config);

}  // namespace assay::data
