// Any bytes as a JPEG file: a window at some scale is decoded, twice to the same pixels, or an
// Error raised.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sdk/base/error.h"
#include "sdk/data/jpeg.h"

namespace {

using assay::data::JpegDecoder;

constexpr int64_t kMaxPixels = 1 << 20;  // larger ones only take time

// The first four bytes choose the window, the fifth the scale. A sum over its pixels.
unsigned decode(JpegDecoder& decoder, const uint8_t* choices, std::string_view file) {
  const assay::data::JpegInfo info = decoder.open(file);
  if (int64_t{info.height} * info.width > kMaxPixels) return 0;
  const int eighths = 1 << choices[4] % 4;
  const int height = assay::data::scaled_jpeg_size(info.height, eighths);
  const int width = assay::data::scaled_jpeg_size(info.width, eighths);
  assay::data::Rectangle window{choices[0] % height, choices[1] % width, 0, 0};
  window.height = 1 + choices[2] % (height - window.top);
  window.width = 1 + choices[3] % (width - window.left);
  decoder.start(window, eighths);
  unsigned sum = 0;
  for (int y = 0; y < window.height; ++y) {
    const uint8_t* row = decoder.next_row();
    for (int x = 0; x < 4 * window.width; ++x) sum = 31 * sum + (x % 4 == 3 ? 0 : row[x]);
  }
  return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static JpegDecoder decoder;  // what one image leaves behind meets the next
  if (size < 5) return 0;
  const std::string_view file(reinterpret_cast<const char*>(data) + 5, size - 5);
  try {
    const unsigned sum = decode(decoder, data, file);
    if (decode(decoder, data, file) != sum) std::abort();
  } catch (const assay::Error&) {
  }
  return 0;
}
