// Records of uncompressed labelled images (sdk/data/FORMAT.md) as samples:
//   image  f32 [H, W, C], augmented and normalised
//   label  i32 [], padded with -1
// With "raw", bytes u8 [H, W, C], the label, and placement i32 [4] (see the configuration).
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "sdk/base/config.h"
#include "sdk/data/augment/image.h"
#include "sdk/data/example.h"
#include "sdk/data/transform.h"

namespace assay::data {

struct LabelledImages {
  ImageShape shape;     // of every image
  int64_t classes = 0;  // labels are 0 to classes - 1
};

// What transforms of labelled images have in common. The label of a record; kFormat unless it is 0
// to classes - 1.
int32_t label_of(const Example& example, int64_t classes);
// The arrays above, without the maker.
Transform labelled_transform(const ImageShape& sample, bool raw);

// Steps run in the order of these keys; those left out do nothing. assay_data.h says the same to
// callers.
struct ImageTransformConfig {
  int32_t crop_padding = 0;
  float flip_horizontal = 0;
  float flip_vertical = 0;
  float rotation_degrees = 0;
  std::optional<float> scale;
  std::vector<float> mean, stddev;
  float erasing_probability = 0;
  float erasing_min_area = 0.02f;
  float erasing_max_area = 0.33f;
  float erasing_min_aspect = 0.3f;
  float erasing_max_aspect = 3.3f;
  float erasing_value = 0;
  bool raw = false;
  void fields(ConfigFields& f);
};

// kInvalid when the configuration makes no sense, naming the key.
Transform make_image_transform(const LabelledImages& images, const ImageTransformConfig& config);

}  // namespace assay::data
