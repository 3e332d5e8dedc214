#include "tools/recipe_run/engine/picture_decoder.h"

#ifdef ASSAY_OPENCV
#include <opencv2/core/version.hpp>

#include "tools/common/picture_reader.h"
#endif

namespace reciperun {

#ifdef ASSAY_OPENCV
namespace {

// Takes the first page of a file.
void take_page(void* to, const assay_picture* page) {
  Picture& out = *static_cast<Picture*>(to);
  if (!out.pixels.empty() || page->bits != 8) return;
  out.height = page->height;
  out.width = page->width;
  out.channels = page->channels;
  const auto row = static_cast<size_t>(page->width) * static_cast<size_t>(page->channels);
  const auto step = page->row_bytes == 0 ? row : static_cast<size_t>(page->row_bytes);
  const auto* pixels = static_cast<const char*>(page->data);
  for (int y = 0; y < page->height; ++y)
    out.pixels.append(pixels + static_cast<size_t>(y) * step, row);
}

bool decode(std::string_view file, Picture& out) {
  out = {};
  return assay::tools::read_pictures(0, file.data(), file.size(), take_page, &out) == 0 &&
         !out.pixels.empty();
}

}  // namespace

PictureDecoder make_picture_decoder() { return {std::string("OpenCV ") + CV_VERSION, decode}; }
#else
PictureDecoder make_picture_decoder() { return {}; }
#endif

}  // namespace reciperun
