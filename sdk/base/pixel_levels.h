// What the 256 values of a pixel become, channel by channel: (value * scale - mean) / stddev, each
// step in f32. One rule for loaders that finish images and for devices that do, so that both give
// the same bits.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace assay {

inline float pixel_level(uint8_t value, float scale, float mean, float stddev) {
  return (static_cast<float>(value) * scale - mean) / stddev;
}

// Each list holds nothing (0, or 1 for stddev), one number for all channels, or one per channel.
struct Normalisation {
  float scale = 1.0f / 255.0f;
  std::vector<float> mean, stddev;
  bool operator==(const Normalisation&) const = default;
};

// With one number per channel. kInvalid for lists of another length and for a stddev that is not
// above 0. Errors say "<of>: <prefix>mean": "trainer" and "raw_images.".
Normalisation per_channel(const Normalisation& normalisation, int64_t channels, std::string_view of,
                          std::string_view prefix = "");

}  // namespace assay
