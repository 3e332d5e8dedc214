// Shared by the configurations of models of images.
#pragma once

#include <string_view>
#include <vector>

#include "sdk/base/config.h"
#include "sdk/base/dims.h"

namespace assay::models {

// Declares the key "image": [rows, columns, channels].
inline void declare_image(ConfigFields& f, std::vector<int64_t>& image) {
  f("image", image, "[rows, columns, channels]").in({1, 16384, true}).not_empty();
}

// Reads and checks the configuration of a model; `Config` has a list `image`.
template <class Config>
Config read_image_config(std::string_view model, std::string_view json) {
  Config config;
  parse_json(json, config, cat(model, " configuration"));
  expect(config.image.size() == 3, {model, "image"}, cat(config.image.size(), " numbers"),
         "[rows, columns, channels]");
  check_config(model, "", config);
  return config;
}

// Of a checked one.
inline Dims image_dims(const std::vector<int64_t>& image) { return {image[0], image[1], image[2]}; }

}  // namespace assay::models
