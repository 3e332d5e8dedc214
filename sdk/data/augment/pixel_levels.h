// Tables of sdk/base/pixel_levels.h for transforms that finish images.
#pragma once

#include <array>

#include "sdk/base/pixel_levels.h"

namespace assay::data {

using PixelLevels = std::vector<std::array<float, 256>>;  // a table per channel

// Of a configuration with an optional `scale`, and `mean` and `stddev`.
template <class Config>
Normalisation normalisation_of(const Config& config) {
  return {
      .scale = config.scale.value_or(1.0f / 255.0f), .mean = config.mean, .stddev = config.stddev};
}

// Fails as per_channel.
PixelLevels pixel_levels(const Normalisation& normalisation, int channels, std::string_view of);

// `values` pixels, channels interleaved.
void apply_levels(const PixelLevels& levels, const uint8_t* pixels, size_t values, float* out);

}  // namespace assay::data
