#include "sdk/base/pixel_levels.h"

#include <string>

#include "sdk/base/expect.h"

namespace assay {
namespace {

// One number per channel out of none, one or all of them.
std::vector<float> spread(const std::vector<float>& given, int64_t channels, float fallback,
                          const Key& key) {
  const auto n = static_cast<int64_t>(given.size());
  expect(n <= 1 || n == channels, key, cat("a list of ", n),
         channels == 1 ? "one of one number" : cat("one of 1 or ", channels));
  if (n == channels) return given;
  return std::vector<float>(static_cast<size_t>(channels), given.empty() ? fallback : given[0]);
}

}  // namespace

Normalisation per_channel(const Normalisation& normalisation, int64_t channels, std::string_view of,
                          std::string_view prefix) {
  const std::string mean = cat(prefix, "mean"), stddev = cat(prefix, "stddev");
  Normalisation result{.scale = normalisation.scale,
                       .mean = spread(normalisation.mean, channels, 0, {of, mean}),
                       .stddev = spread(normalisation.stddev, channels, 1, {of, stddev})};
  for (const float value : result.stddev) expect(value > 0, {of, stddev}, value, "more than 0");
  return result;
}

}  // namespace assay
