// Flips, shifts, rotation and erasing of dense [H, W, C] images, for f32 and bytes.
#include "sdk/data/augment/image.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace assay::data {
namespace {

// Half to even, and within the byte's range.
template <class T>
T round_to(float value) {
  if constexpr (std::is_same_v<T, uint8_t>) {
    return static_cast<uint8_t>(std::clamp(std::nearbyint(value), 0.0f, 255.0f));
  } else {
    return value;
  }
}

}  // namespace

int random_offset(int reach, PhiloxStream& random) {
  return static_cast<int>(random.below(2 * static_cast<uint32_t>(reach) + 1)) - reach;
}

template <class T>
void flip_horizontal(T* image, const ImageShape& shape) {
  const int channels = shape.channels;
  for (int y = 0; y < shape.height; ++y) {
    T* left = image + y * shape.width * channels;
    T* right = left + (shape.width - 1) * channels;
    for (; left < right; left += channels, right -= channels) {
      std::swap_ranges(left, left + channels, right);
    }
  }
}

template <class T>
void flip_vertical(T* image, const ImageShape& shape) {
  const int row = shape.width * shape.channels;
  for (int y = 0; y < shape.height / 2; ++y) {
    std::swap_ranges(image + y * row, image + (y + 1) * row, image + (shape.height - 1 - y) * row);
  }
}

template <class T>
void translate(const T* source, const ImageShape& shape, int dy, int dx, T fill, T* target) {
  const int row = shape.width * shape.channels;
  // Columns [first, last) of the target have a source.
  const int first = std::clamp(-dx, 0, shape.width),
            last = std::clamp(shape.width - dx, 0, shape.width);
  for (int y = 0; y < shape.height; ++y, target += row) {
    const int from = y + dy;
    if (from < 0 || from >= shape.height || first >= last) {
      std::fill_n(target, row, fill);
      continue;
    }
    std::fill_n(target, first * shape.channels, fill);
    const T* begin = source + from * row + (first + dx) * shape.channels;
    std::copy_n(begin, (last - first) * shape.channels, target + first * shape.channels);
    std::fill(target + last * shape.channels, target + row, fill);
  }
}

template <class T>
void random_crop_padded(const T* source, const ImageShape& shape, int padding, T fill,
                        PhiloxStream& random, T* target) {
  const int dy = random_offset(padding, random);
  const int dx = random_offset(padding, random);
  translate(source, shape, dy, dx, fill, target);
}

// Turning the target by `degrees` is reading from positions turned the other way.
template <class T>
void rotate(const T* source, const ImageShape& shape, float degrees, T fill, T* target) {
  const double angle = degrees * std::numbers::pi / 180;
  const auto cosine = static_cast<float>(std::cos(angle));
  const auto sine = static_cast<float>(std::sin(angle));
  const float centre_y = (shape.height - 1) * 0.5f, centre_x = (shape.width - 1) * 0.5f;
  const auto pixel = [&](int y, int x, int c) -> float {
    const bool inside = y >= 0 && y < shape.height && x >= 0 && x < shape.width;
    return inside ? source[(y * shape.width + x) * shape.channels + c] : fill;
  };
  for (int y = 0; y < shape.height; ++y) {
    for (int x = 0; x < shape.width; ++x) {
      const float from_y = centre_y + cosine * (y - centre_y) + sine * (x - centre_x);
      const float from_x = centre_x - sine * (y - centre_y) + cosine * (x - centre_x);
      const int y0 = static_cast<int>(std::floor(from_y)),
                x0 = static_cast<int>(std::floor(from_x));
      const float wy = from_y - y0, wx = from_x - x0;
      for (int c = 0; c < shape.channels; ++c) {
        const float upper = pixel(y0, x0, c) * (1 - wx) + pixel(y0, x0 + 1, c) * wx;
        const float lower = pixel(y0 + 1, x0, c) * (1 - wx) + pixel(y0 + 1, x0 + 1, c) * wx;
        *target++ = round_to<T>(upper * (1 - wy) + lower * wy);
      }
    }
  }
}

template <class T>
void random_rotate(const T* source, const ImageShape& shape, float degrees, T fill,
                   PhiloxStream& random, T* target) {
  rotate(source, shape, random.uniform(-degrees, degrees), fill, target);
}

template <class T>
void fill_rectangle(T* image, const ImageShape& shape, const Rectangle& rectangle, T fill) {
  for (int y = rectangle.top; y < rectangle.top + rectangle.height; ++y) {
    std::fill_n(image + (y * shape.width + rectangle.left) * shape.channels,
                rectangle.width * shape.channels, fill);
  }
}

Rectangle random_rectangle(const ImageShape& shape, const ErasingRange& range,
                           PhiloxStream& random) {
  constexpr int kAttempts = 10;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const float area = random.uniform(range.min_area, range.max_area) * shape.pixels();
    const float aspect =
        std::exp(random.uniform(std::log(range.min_aspect), std::log(range.max_aspect)));
    const int height = static_cast<int>(std::lround(std::sqrt(area * aspect)));
    const int width = static_cast<int>(std::lround(std::sqrt(area / aspect)));
    if (height < 1 || width < 1 || height > shape.height || width > shape.width) continue;
    const auto top =
        static_cast<int>(random.below(static_cast<uint32_t>(shape.height - height + 1)));
    const auto left =
        static_cast<int>(random.below(static_cast<uint32_t>(shape.width - width + 1)));
    return {top, left, height, width};
  }
  return {};
}

template void flip_horizontal(float*, const ImageShape&);
template void flip_horizontal(uint8_t*, const ImageShape&);
template void flip_vertical(float*, const ImageShape&);
template void flip_vertical(uint8_t*, const ImageShape&);
template void translate(const float*, const ImageShape&, int, int, float, float*);
template void translate(const uint8_t*, const ImageShape&, int, int, uint8_t, uint8_t*);
template void random_crop_padded(const float*, const ImageShape&, int, float, PhiloxStream&,
                                 float*);
template void random_crop_padded(const uint8_t*, const ImageShape&, int, uint8_t, PhiloxStream&,
                                 uint8_t*);
template void rotate(const float*, const ImageShape&, float, float, float*);
template void rotate(const uint8_t*, const ImageShape&, float, uint8_t, uint8_t*);
template void random_rotate(const float*, const ImageShape&, float, float, PhiloxStream&, float*);
template void random_rotate(const uint8_t*, const ImageShape&, float, uint8_t, PhiloxStream&,
                            uint8_t*);
template void fill_rectangle(float*, const ImageShape&, const Rectangle&, float);
template void fill_rectangle(uint8_t*, const ImageShape&, const Rectangle&, uint8_t);

}  // namespace assay::data
