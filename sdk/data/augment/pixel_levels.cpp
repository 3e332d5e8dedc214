#include "sdk/data/augment/pixel_levels.h"

#include <string>

#include "sdk/base/expect.h"

namespace assay::data {
namespace {

// One number per channel out of none, one or all of them.
std::vector<float> per_channel(const google::protobuf::RepeatedField<float>& given, int channels,
                               float fallback, const Key& key) {
  expect(given.size() <= 1 || given.size() == channels, key, cat("a list of ", given.size()),
         channels == 1 ? "one of one number" : cat("one of 1 or ", channels));
  if (given.size() == channels) return {given.begin(), given.end()};
  return std::vector<float>(static_cast<size_t>(channels), given.empty() ? fallback : given[0]);
}

}  // namespace

PixelLevels pixel_levels(const Normalisation& normalisation, int channels, std::string_view of,
                         std::string_view prefix) {
  const std::string mean_path = cat(prefix, "mean"), stddev_path = cat(prefix, "stddev");
  const auto mean = per_channel(normalisation.mean, channels, 0, {of, mean_path});
  const auto stddev = per_channel(normalisation.stddev, channels, 1, {of, stddev_path});
  PixelLevels levels(static_cast<size_t>(channels));
  for (size_t c = 0; c < levels.size(); ++c) {
    expect(stddev[c] > 0, {of, stddev_path}, stddev[c], "more than 0");
    for (size_t value = 0; value < 256; ++value)
      levels[c][value] = (static_cast<float>(value) * normalisation.scale - mean[c]) / stddev[c];
  }
  return levels;
}

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
