// Made-up micrographs: pages of stripes in noise, and the stripes as classes, in the place of a
// TIFF decoder.
#pragma once

#include <assay/assay.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace assay::test {

inline constexpr int kSlices = 12, kSide = 512;

// An assay_host::read_image. A file whose bytes are "masks" has kSlices pages of classes, any other
// file has those of the images.
inline int32_t make_pages(uintptr_t, const void* file, size_t size,
                          void (*give)(void* to, const assay_picture* page), void* to) {
  const bool masks = std::string_view(static_cast<const char*>(file), size) == "masks";
  std::vector<uint8_t> pixels(static_cast<size_t>(kSide) * kSide);
  for (int slice = 0; slice < kSlices; ++slice) {
    for (int y = 0; y < kSide; ++y) {
      for (int x = 0; x < kSide; ++x) {
        const bool membrane = (x + 37 * slice) / 64 % 4 == 0;
        const int noise = (x * 7 + y * 13 + slice * 29) % 64;
        pixels[static_cast<size_t>(int64_t{y} * kSide + x)] =
            static_cast<uint8_t>(masks ? (membrane ? 0 : 255) : (membrane ? 40 : 150) + noise);
      }
    }
    assay_picture picture{};
    picture.struct_size = sizeof picture;
    picture.height = picture.width = kSide;
    picture.channels = 1;
    picture.bits = 8;
    picture.data = pixels.data();
    give(to, &picture);
  }
  return 0;
}

}  // namespace assay::test
