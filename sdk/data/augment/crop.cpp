// Which part of a photograph a sample shows: the random crops of training, the central one of
// tests.
#include "sdk/data/augment/crop.h"

#include <algorithm>
#include <cmath>

namespace assay::data {
namespace {

// A side in whole pixels, from 1 to `most`; sizes may lie outside of what an int holds.
int whole_side(double size, int most) {
  return static_cast<int>(std::clamp(size, 1.0, 1.0 * most));
}

int rounded_side(double size) { return static_cast<int>(std::lround(std::clamp(size, 1.0, 1e9))); }

// The largest window of an allowed aspect, shrunk to the largest area.
ImageSize largest_allowed(int height, int width, const CropRange& range) {
  const float aspect = static_cast<float>(width) / static_cast<float>(height);
  ImageSize size{height, width};
  if (aspect > range.max_aspect) size.width = whole_side(height * range.max_aspect, width);
  if (aspect < range.min_aspect) size.height = whole_side(width / range.min_aspect, height);
  const double share = range.max_area * (static_cast<double>(height) * width) /
                       (static_cast<double>(size.height) * size.width);
  if (share >= 1) return size;
  return {whole_side(size.height * std::sqrt(share), height),
          whole_side(size.width * std::sqrt(share), width)};
}

ImageSize draw_size(int height, int width, const CropRange& range, PhiloxStream& random) {
  constexpr int kAttempts = 10;
  const double area = static_cast<double>(height) * width;
  const int widest = whole_side(height * range.max_aspect, width);
  const int tallest = whole_side(width / range.min_aspect, height);
  // Even the widest (tallest) window allowed is below the smallest area: nothing to draw for.
  if (static_cast<double>(height) * widest < range.min_area * area) return {height, widest};
  if (static_cast<double>(width) * tallest < range.min_area * area) return {tallest, width};
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const double target = random.uniform(range.min_area, range.max_area) * area;
    const double aspect =
        std::exp(random.uniform(std::log(range.min_aspect), std::log(range.max_aspect)));
    const ImageSize size{rounded_side(std::sqrt(target / aspect)),
                         rounded_side(std::sqrt(target * aspect))};
    const float rounded = static_cast<float>(size.width) / static_cast<float>(size.height);
    if (size.height <= height && size.width <= width && rounded >= range.min_aspect &&
        rounded <= range.max_aspect) {
      return size;
    }
  }
  return largest_allowed(height, width, range);
}

}  // namespace

Rectangle random_resized_crop(int height, int width, const CropRange& range, PhiloxStream& random) {
  const ImageSize size = draw_size(height, width, range, random);
  const auto top = random.below(static_cast<uint32_t>(height - size.height + 1));
  const auto left = random.below(static_cast<uint32_t>(width - size.width + 1));
  return {static_cast<int>(top), static_cast<int>(left), size.height, size.width};
}

ImageSize resize_shorter(int height, int width, int side) {
  const int shorter = std::min(height, width), longer = std::max(height, width);
  const auto scaled = static_cast<int>((2 * int64_t{longer} * side + shorter) / (2 * shorter));
  return height <= width ? ImageSize{side, scaled} : ImageSize{scaled, side};
}

}  // namespace assay::data
