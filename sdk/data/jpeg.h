// JPEG files as pixels, and back, by libjpeg-turbo.
//
// Decoding knows one order of steps: open, then start, then one call of next_row per row. Only the
// rows and columns of the window are computed, so a crop costs little more than its share of the
// image. What comes out is the same whatever the window: accurate integer DCT ("islow") and smooth
// ("fancy") chroma upsampling, libjpeg's defaults and those of Pillow and OpenCV.
//
// Grey images come out with equal channels. CMYK and YCCK are taken to be inverted, as Adobe's
// programs write them and Pillow and OpenCV read them. Orientation tags and colour profiles are
// ignored, as the networks of the literature were trained.
//
// Any bytes either decode or fail: kFormat for damaged and truncated files (where the damage lies
// inside or before the window), kUnsupported for kinds and sizes that are not read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "sdk/data/augment/image.h"

namespace assay::data {

// Larger images are refused before memory is asked for.
inline constexpr int64_t kMaxImagePixels = int64_t{1} << 28;

enum class JpegColor { kGrey, kColor, kCmyk };

struct JpegInfo {
  int height = 0, width = 0;
  JpegColor color = JpegColor::kColor;
};

// Keeps its memory from image to image. For one thread.
class JpegDecoder {
 public:
  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;

  // Reads the header. `file` must stay until the last row.
  JpegInfo open(std::string_view file);

  // Prepares the rows of a window of the image at `eighths` / 8 of its size (1, 2, 4 or 8: reduced
  // inside the DCT, much faster than decoding all). The size is then scaled_jpeg_size, and the
  // window is in its coordinates. Once per open.
  void start(const Rectangle& window, int eighths = 8);

  // The next row of the window: red, green, blue and a byte without meaning for each pixel. Valid
  // until the next call. One call per row of the window, no more.
  const uint8_t* next_row();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// ceil(size * eighths / 8).
constexpr int scaled_jpeg_size(int size, int eighths) { return (size * eighths + 7) / 8; }

// The first bytes are a JPEG's, whatever the file's name says.
constexpr bool looks_like_jpeg(std::string_view file) {
  return file.size() >= 3 && file[0] == '\xff' && file[1] == '\xd8' && file[2] == '\xff';
}

// [height, width, 3] bytes of red, green and blue as a baseline JPEG without chroma subsampling.
// quality: 1 to 100.
std::string encode_jpeg(const uint8_t* pixels, int height, int width, int quality);

}  // namespace assay::data
