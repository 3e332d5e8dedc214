// The host's decoder of image files, as the engine wants it.
#include <cstring>
#include <exception>

#include "capi/src/abi.h"
#include "capi/src/context.h"

namespace assay::capi {
namespace {

constexpr int32_t kMaxSide = 1 << 20;
constexpr int64_t kMaxPixels = int64_t{1} << 30;

data::PixelPage copy_page(const assay_picture& picture) {
  require(picture.height > 0 && picture.height <= kMaxSide && picture.width > 0 &&
              picture.width <= kMaxSide && int64_t{picture.height} * picture.width <= kMaxPixels,
          Code::kCallback, "read_image gave a picture of ", picture.width, " x ", picture.height,
          " pixels");
  require((picture.channels == 1 || picture.channels == 3 || picture.channels == 4) &&
              (picture.bits == 8 || picture.bits == 16) && picture.data != nullptr,
          Code::kCallback, "read_image gave a picture of ", picture.channels, " channels of ",
          picture.bits, " bits, expected 1, 3 or 4 of 8 or 16, and data");
  const int64_t row = int64_t{picture.width} * picture.channels * (picture.bits / 8);
  const int64_t stride = picture.row_bytes == 0 ? row : picture.row_bytes;
  require(stride >= row, Code::kCallback, "read_image gave rows of ", row, " bytes, only ", stride,
          " apart");
  data::PixelPage page{picture.height, picture.width, picture.channels, picture.bits, {}};
  page.bytes.reserve(static_cast<size_t>(row * picture.height));
  const auto* from = static_cast<const char*>(picture.data);
  for (int32_t y = 0; y < picture.height; ++y) {
    page.bytes.append(from + y * stride, static_cast<size_t>(row));
  }
  return page;
}

// Exceptions must not cross the host's code: the first is kept until it has returned.
struct Collector {
  std::vector<data::PixelPage> pages;
  std::exception_ptr error;
};

void collect(void* to, const assay_picture* page) {
  auto& collector = *static_cast<Collector*>(to);
  if (collector.error) return;
  try {
    collector.pages.push_back(copy_page(read_struct(page, "page")));
  } catch (...) {
    collector.error = std::current_exception();
  }
}

}  // namespace

data::ImageReader Context::image_reader() const {
  if (host_.read_image == nullptr) return {};
  return [host = host_](std::string_view file) {
    Collector collector;
    const int32_t answer =
        host.read_image(host.user, file.data(), file.size(), collect, &collector);
    if (collector.error) std::rethrow_exception(collector.error);
    require(answer == 0 && !collector.pages.empty(), Code::kFormat, "the ", file.size(),
            " bytes cannot be decoded as an image: damaged, cut short, too large or of an unknown "
            "format");
    return std::move(collector.pages);
  };
}

}  // namespace assay::capi
