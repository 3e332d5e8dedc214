// Shared by the configurations of models of images.
#pragma once

#include <google/protobuf/repeated_field.h>

#include <array>
#include <string_view>

#include "sdk/base/expect.h"
#include "sdk/nn/builder.h"

namespace assay::models {

inline void expect_range(const Key& key, int64_t value, int64_t low, int64_t high) {
  expect(value >= low && value <= high, key, value, low, " to ", high);
}

template <class Config>
void set_image(Config& config, const std::array<int64_t, 3>& image) {
  config.mutable_image()->Assign(image.begin(), image.end());
}

// [rows, columns, channels]
inline void check_image(std::string_view model,
                        const google::protobuf::RepeatedField<int64_t>& image) {
  expect(image.size() == 3, {model, "image"}, cat(image.size(), " numbers"),
         "[rows, columns, channels]");
  for (const int64_t size : image) expect_range({model, "image"}, size, 1, 16384);
}

// The keys of a classifier of images.
inline void check_classifier(std::string_view model,
                             const google::protobuf::RepeatedField<int64_t>& image,
                             int64_t classes) {
  check_image(model, image);
  expect_range({model, "classes"}, classes, 2, 1000000);
}

// Of a checked one.
inline Dims image_dims(const google::protobuf::RepeatedField<int64_t>& image) {
  return {image[0], image[1], image[2]};
}

}  // namespace assay::models
