// Image files as records: checked by decoding, re-encoded only where they are no JPEG.
#include "datasets/image_records.h"

#include "sdk/base/error.h"
#include "sdk/data/example.h"
#include "sdk/data/example.pb.h"
#include "sdk/data/jpeg.h"

namespace assay::datasets {
namespace {

// Every row, at an eighth of the size: reads all of the file, and computes little.
data::JpegInfo check_jpeg(std::string_view file) {
  constexpr int kEighths = 1;
  data::JpegDecoder decoder;
  const data::JpegInfo info = decoder.open(file);
  const int height = data::scaled_jpeg_size(info.height, kEighths);
  decoder.start({0, 0, height, data::scaled_jpeg_size(info.width, kEighths)}, kEighths);
  for (int y = 0; y < height; ++y) decoder.next_row();
  return info;
}

std::string to_rgb(const data::PixelPage& page) {
  const auto pixels = static_cast<size_t>(page.height) * static_cast<size_t>(page.width);
  const auto channels = static_cast<size_t>(page.channels);
  const size_t step = page.bits == 16 ? 2 : 1;
  const size_t high = step - 1;  // the upper byte of a little-endian channel
  std::string rgb;
  rgb.reserve(3 * pixels);
  for (size_t i = 0; i < pixels; ++i) {
    for (size_t c = 0; c < 3; ++c) {
      rgb += page.bytes[(i * channels + (channels == 1 ? 0 : c)) * step + high];
    }
  }
  return rgb;
}

data::PixelPage only_page(std::string_view file, const data::ImageReader& read_image) {
  require(static_cast<bool>(read_image), Code::kUnsupported,
          "no JPEG, and this program brings no decoder of other formats");
  auto pages = read_image(file);
  require(pages.size() == 1, Code::kUnsupported, "it has ", pages.size(), " pages");
  return std::move(pages[0]);
}

// Without chroma subsampling and at full quality: as little is lost as JPEG allows.
std::string reencode(const data::PixelPage& page) {
  constexpr int kQuality = 100;
  return data::encode_jpeg(reinterpret_cast<const uint8_t*>(to_rgb(page).data()), page.height,
                           page.width, kQuality);
}

}  // namespace

bool is_fault_of_the_file(const Error& error) {
  return error.code() == Code::kFormat || error.code() == Code::kUnsupported;
}

void make_usable(std::string_view file, const data::ImageReader& read_image, UsableImage& image) {
  image = {};
  if (data::looks_like_jpeg(file)) {
    const data::JpegInfo info = check_jpeg(file);
    image.bytes = file, image.height = info.height, image.width = info.width;
    if (info.color == data::JpegColor::kGrey) image.remark = "grey";
    if (info.color == data::JpegColor::kCmyk) image.remark = "CMYK";
    return;
  }
  const data::PixelPage page = only_page(file, read_image);
  image.reencoded = reencode(page);
  image.bytes = image.reencoded, image.height = page.height, image.width = page.width;
  image.remark = "re-encoded as JPEG";
}

void make_image_entry(const LabelledImage& image, const data::ImageReader& read_image,
                      data::DatasetWriter::Entry& entry) {
  UsableImage usable;
  try {
    make_usable(image.file, read_image, usable);
  } catch (const Error& error) {
    if (!is_fault_of_the_file(error)) throw;
    entry.usable = false;
    entry.remarks.push_back({"left out", cat(image.where, ": ", error.message())});
    return;
  }
  if (!usable.remark.empty()) entry.remarks.push_back({std::string(usable.remark), image.where});
  data::Example example;
  data::set_bytes_feature(example, "jpeg", usable.bytes);
  data::set_int64_feature(example, "label", image.label);
  data::set_int64_feature(example, "id", static_cast<int64_t>(image.id));
  data::serialize_example(example, entry.payload);
}

}  // namespace assay::datasets
