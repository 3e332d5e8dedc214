#include "sdk/data/augment/pixel_levels.h"

namespace assay::data {

PixelLevels pixel_levels(const Normalisation& normalisation, int channels, std::string_view of) {
  const Normalisation each = per_channel(normalisation, channels, of);
  PixelLevels levels(static_cast<size_t>(channels));
  for (size_t c = 0; c < levels.size(); ++c) {
    for (size_t value = 0; value < 256; ++value)
      levels[c][value] =
          pixel_level(static_cast<uint8_t>(value), each.scale, each.mean[c], each.stddev[c]);
  }
  return levels;
}

// levels: [channels][256]; pixels and out: [values], a multiple of the channels.
void apply_levels(const PixelLevels& levels, const uint8_t* pixels, size_t values, float* out) {
  if (levels.size() == 1) {
    for (size_t i = 0; i < values; ++i) out[i] = levels[0][pixels[i]];
    return;
  }
  for (size_t i = 0; i < values; i += levels.size()) {
    for (size_t c = 0; c < levels.size(); ++c) out[i + c] = levels[c][pixels[i + c]];
  }
}

}  // namespace assay::data
