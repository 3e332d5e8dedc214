// Checks shared by the image classifiers' configurations.
#pragma once

#include <google/protobuf/repeated_field.h>

#include <string_view>

#include "sdk/base/expect.h"
#include "sdk/nn/builder.h"

namespace assay::models {

// The image and label inputs of a classifier, from the `image` and `classes` keys (checked).
inline std::vector<nn::InputSpec> classifier_inputs(
    std::string_view model, const google::protobuf::RepeatedField<int64_t>& image,
    int64_t classes) {
  expect(image.size() == 3, {model, "image"}, cat(image.size(), " numbers"),
         "[rows, columns, channels]");
  for (const int64_t size : image) {
    expect(size > 0 && size <= 16384, {model, "image"}, size, "sizes in [1, 16384]");
  }
  expect(classes >= 2 && classes <= 1000000, {model, "classes"}, classes, "2 to 1000000");
  return {{"image", DType::kF32, {image[0], image[1], image[2]}, 0},
          {"label", DType::kI32, {}, classes}};
}

}  // namespace assay::models
