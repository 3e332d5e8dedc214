// Image files that conversions meet and the library does not decode itself (PNG, TIFF, ...): the
// host of the library brings the codec.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace assay::data {

struct PixelPage {
  int height = 0, width = 0;
  int channels = 0;   // 1: grey; 3: red, green, blue; 4: and opacity
  int bits = 8;       // per channel; 16 in the order of this machine
  std::string bytes;  // [height, width, channels], dense
};

// All pages of a file; formats with one picture have one. kFormat when it cannot be read. Any
// number of threads may call at once.
using ImageReader = std::function<std::vector<PixelPage>(std::string_view file)>;

}  // namespace assay::data
