// Records of labelled JPEG images (sdk/data/FORMAT.md) as samples:
//   image  f32 [size, size, channels], red, green, blue
//   label  i32 [], padded with -1
// With "raw", bytes u8 [size, size, 3], the label, and placement i32 [4] (see the configuration).
//
// Pixels are bytes until normalisation: resizing rounds, as it does in the pipelines the published
// networks were trained with.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sdk/base/config.h"
#include "sdk/data/transform.h"

namespace assay::data {

// assay_data.h says the same to callers.
struct JpegTransformConfig {
  // Which part of the image is seen, and how it comes to size x size pixels:
  //   "centre"   the shorter side becomes resize_shorter, then the middle; for evaluation
  //   "random"   a random window, stretched; for training
  //   "stretch"  the whole image, stretched
  std::string crop = "centre";
  int32_t size = 224;
  std::optional<int32_t> resize_shorter;
  std::optional<float> min_area, max_area, min_aspect, max_aspect;
  float flip_horizontal = 0;
  std::optional<float> scale;
  std::vector<float> mean, stddev;
  std::optional<int32_t> channels;
  std::optional<bool> reduced_decoding;
  bool raw = false;
  void fields(ConfigFields& f);
};

// Labels are 0 to classes - 1. kInvalid when the configuration makes no sense, naming the key.
Transform make_jpeg_transform(int64_t classes, const JpegTransformConfig& config);

}  // namespace assay::data
