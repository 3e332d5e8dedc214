// Checks shared by the image classifiers' configurations.
#pragma once

#include <google/protobuf/repeated_field.h>

#include <string_view>

#include "sdk/nn/builder.h"

namespace assay::models {

// The image and label inputs of a classifier, from the `image` and `classes` keys (checked).
inline std::vector<nn::InputSpec> classifier_inputs(
    std::string_view model, const google::protobuf::RepeatedField<int64_t>& image,
    int64_t classes) {
  require(image.size() == 3, Code::kInvalid, model,
          ": image must be [rows, columns, channels], got ", image.size(), " numbers");
  for (const int64_t size : image) {
    require(size > 0 && size <= 16384, Code::kInvalid, model,
            ": image sizes must be in [1, 16384], got ", size);
  }
  require(classes >= 2 && classes <= 1000000, Code::kInvalid, model,
          ": classes must be in [2, 1000000], got ", classes);
  return {{"image", DType::kF32, {image[0], image[1], image[2]}, 0},
          {"label", DType::kI32, {}, classes}};
}

}  // namespace assay::models
