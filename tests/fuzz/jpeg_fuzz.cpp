// Any bytes as a JPEG file: a window at some scale is decoded, or an Error raised.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sdk/base/error.h"
#include "sdk/data/jpeg.h"

namespace {

constexpr int64_t kMaxPixels = 1 << 20;  // larger ones only take time

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace assay::data;
  static JpegDecoder decoder;  // what one image leaves behind meets the next
  if (size < 5) return 0;
  // The first four bytes choose the window, the fifth the scale.
  try {
    const JpegInfo info = decoder.open({reinterpret_cast<const char*>(data) + 5, size - 5});
    if (int64_t{info.height} * info.width > kMaxPixels) return 0;
    const int eighths = 1 << data[4] % 4;
    const int height = scaled_jpeg_size(info.height, eighths);
    const int width = scaled_jpeg_size(info.width, eighths);
    assay::data::Rectangle window{data[0] % height, data[1] % width, 0, 0};
    window.height = 1 + data[2] % (height - window.top);
    window.width = 1 + data[3] % (width - window.left);
    decoder.start(window, eighths);
    unsigned sum = 0;
    for (int y = 0; y < window.height; ++y) {
      const uint8_t* row = decoder.next_row();
      for (int x = 0; x < 4 * window.width; ++x) sum += row[x];
    }
    static volatile unsigned sink = 0;
    sink = sum;
  } catch (const assay::Error&) {
  }
  return 0;
}
