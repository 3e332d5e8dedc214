// Every page of a TIFF is decoded by libtiff and thrown away; of a PNG only the size is read.
#include "tools/common/picture_check.h"

#include <tiffio.h>

#include <memory>
#include <vector>

namespace assay::tools {
namespace {

using namespace std::string_view_literals;

struct FreeOptions {
  void operator()(TIFFOpenOptions* options) const { TIFFOpenOptionsFree(options); }
};
struct CloseTiff {
  void operator()(TIFF* tiff) const { TIFFClose(tiff); }
};
using Tiff = std::unique_ptr<TIFF, CloseTiff>;

int keep_silent(TIFF*, void*, const char*, const char*, va_list) { return 1; }

Tiff open_tiff(const std::string& path) {
  const std::unique_ptr<TIFFOpenOptions, FreeOptions> options(TIFFOpenOptionsAlloc());
  if (!options) return nullptr;
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), keep_silent, nullptr);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), keep_silent, nullptr);
  return Tiff(TIFFOpenExt(path.c_str(), "r", options.get()));
}

bool fits(int64_t width, int64_t height, int64_t room) {
  return width > 0 && height > 0 && width <= room && height <= room / width;
}

// Pixels of the page that is open; none if there are more than `room`, or of another kind.
std::optional<int64_t> pixels_of_page(TIFF* tiff, int64_t room) {
  uint32_t width = 0, height = 0;
  uint16_t bits = 0, channels = 0;
  TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width);
  TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_BITSPERSAMPLE, &bits);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLESPERPIXEL, &channels);
  if (!fits(width, height, room) || bits > 16 || channels > 4) return std::nullopt;
  return int64_t{width} * height;
}

// Whether every strip or tile of the open page can be decoded.
bool decodes(TIFF* tiff) {
  const bool tiled = TIFFIsTiled(tiff) != 0;
  const tmsize_t size = tiled ? TIFFTileSize(tiff) : TIFFStripSize(tiff);
  const uint32_t count = tiled ? TIFFNumberOfTiles(tiff) : TIFFNumberOfStrips(tiff);
  if (size <= 0) return false;
  std::vector<char> pixels(static_cast<size_t>(size));
  for (uint32_t i = 0; i < count; ++i) {
    const tmsize_t read = tiled ? TIFFReadEncodedTile(tiff, i, pixels.data(), size)
                                : TIFFReadEncodedStrip(tiff, i, pixels.data(), size);
    if (read < 0) return false;
  }
  return true;
}

std::optional<uint64_t> number_at(std::string_view file, uint64_t at, size_t bytes) {
  if (at > file.size() || bytes > file.size() - at) return std::nullopt;
  const bool little = file[0] == 'I';
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i)
    value = value << 8 | static_cast<uint8_t>(file[at + (little ? bytes - 1 - i : i)]);
  return value;
}

// The list of a page's tags ends with the place of the next page: where it is cut off, libtiff
// takes the page for the last.
bool has_link(std::string_view file, TIFF* tiff) {
  const bool wide = file.substr(2, 2).find('\x2b') != std::string_view::npos;  // BigTIFF
  const uint64_t at = TIFFCurrentDirOffset(tiff), head = wide ? 8 : 2, tag = wide ? 20 : 12;
  const std::optional<uint64_t> tags = number_at(file, at, head);
  return tags && *tags < file.size() && number_at(file, at + head + *tags * tag, wide ? 8 : 4);
}

std::optional<size_t> tiff_pages(std::string_view file, const std::string& path) {
  const Tiff tiff = open_tiff(path);
  int64_t room = kMostPixels;
  for (size_t pages = 1; tiff != nullptr; ++pages) {
    const std::optional<int64_t> pixels = pixels_of_page(tiff.get(), room);
    if (!pixels || !decodes(tiff.get())) break;
    room -= *pixels;
    if (TIFFLastDirectory(tiff.get()) != 0)
      return has_link(file, tiff.get()) ? std::optional(pages) : std::nullopt;
    if (TIFFReadDirectory(tiff.get()) == 0) break;  // damaged, or a page that was there before
  }
  return std::nullopt;
}

// Width and height stand behind the signature and the head of the first chunk.
std::optional<size_t> png_pages(std::string_view file) {
  if (file.size() < 24 || file.substr(12, 4) != "IHDR") return std::nullopt;
  const auto size = [&](uint64_t at) { return static_cast<int64_t>(*number_at(file, at, 4)); };
  return fits(size(16), size(20), kMostPixels) ? std::optional<size_t>(1) : std::nullopt;
}

bool is_tiff(std::string_view file) {
  for (const std::string_view head : {"II\x2a\0"sv, "MM\0\x2a"sv, "II\x2b\0"sv, "MM\0\x2b"sv}) {
    if (file.starts_with(head)) return true;
  }
  return false;
}

}  // namespace

std::optional<size_t> whole_pages(std::string_view file, const std::string& path) {
  if (is_tiff(file)) return tiff_pages(file, path);
  if (file.starts_with("\x89PNG\r\n\x1a\n")) return png_pages(file);
  return 1;
}

}  // namespace assay::tools
