// Records of photographs with boxes (sdk/data/FORMAT.md) as samples for detectors:
//   image    f32 [rows, columns, 3], red, green, blue
//   boxes    f32 [99, 4], (ymin, xmin, ymax, xmax) in pixels of the sample
//   classes  i32 [99], the category less 1; -1 behind the last box
//   count    i32 [], of boxes, padded with -1
// With "origin", source_id i64 [], the record's, and scale f32 []: what the sample's pixels are
// multiplied by for the image's.
//
// This is the preprocessing of the published EfficientDet, to the bit where it is not random: an
// image is normalised, mirrored, resized by TensorFlow 1's bilinear rule with its aspect kept, cut,
// and lies at the upper left corner of zeros. What it draws, it draws from our generator: whether
// to mirror, the size, the first row, the first column.
#pragma once

#include <cstdint>
#include <vector>

#include "sdk/base/config.h"
#include "sdk/data/transform.h"

namespace assay::data {

// assay_data.h says the same to callers.
struct DetectionTransformConfig {
  std::vector<int32_t> size{512, 512};
  // The image is fit to a random size from `scale_jitter[0]` to `scale_jitter[1]` times that of the
  // sample, and a random part of it is seen. None: it is fit to the sample; for evaluation.
  std::vector<float> scale_jitter;
  float flip_horizontal = 0;
  std::optional<float> scale;
  std::vector<float> mean, stddev;
  bool origin = false;
  void fields(ConfigFields& f);
};

// Categories are 1 to `categories`. kInvalid when the configuration makes no sense, naming the key.
Transform make_detection_transform(int64_t categories, const DetectionTransformConfig& config);

}  // namespace assay::data
