// What the 256 values of a pixel become, channel by channel: (value * scale - mean) / stddev, in
// f32. One table for loaders that finish images and for trainers that finish them on the device, so
// that both give the same bits.
#pragma once

#include <google/protobuf/repeated_field.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace assay::data {

using PixelLevels = std::vector<std::array<float, 256>>;  // a table per channel

// Each list holds nothing (0, or 1 for stddev), one number for all channels, or one per channel.
struct Normalisation {
  float scale = 1.0f / 255.0f;
  google::protobuf::RepeatedField<float> mean, stddev;
};

template <class Config>
Normalisation normalisation_of(const Config& config) {
  Normalisation normalisation{.mean = config.mean(), .stddev = config.stddev()};
  if (config.has_scale()) normalisation.scale = config.scale();
  return normalisation;
}

// kInvalid for lists of another length and for a stddev that is not above 0. Errors say
// "<of>: <prefix>mean": "trainer" and "raw_images.".
PixelLevels pixel_levels(const Normalisation& normalisation, int channels, std::string_view of,
                         std::string_view prefix = "");

// `values` pixels, channels interleaved.
void apply_levels(const PixelLevels& levels, const uint8_t* pixels, size_t values, float* out);

}  // namespace assay::data
