// Tables of sdk/base/pixel_levels.h for transforms that finish images.
#pragma once

#include <array>

#include "sdk/base/pixel_levels.h"

namespace assay::data {

using PixelLevels = std::vector<std::array<float, 256>>;  // a table per channel

// Of a configuration with `scale`, `mean` and `stddev`.
template <class Config>
Normalisation normalisation_of(const Config& config) {
  Normalisation normalisation{.mean = {config.mean().begin(), config.mean().end()},
                              .stddev = {config.stddev().begin(), config.stddev().end()}};
  if (config.has_scale()) normalisation.scale = config.scale();
  return normalisation;
}

// Fails as per_channel.
PixelLevels pixel_levels(const Normalisation& normalisation, int channels, std::string_view of);

// `values` pixels, channels interleaved.
void apply_levels(const PixelLevels& levels, const uint8_t* pixels, size_t values, float* out);

}  // namespace assay::data
