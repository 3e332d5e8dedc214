#include "sdk/data/jpeg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "sdk/base/file.h"
#include "sdk/base/philox.h"
#include "sdk/base/sha256.h"
#include "sdk/data/augment/resample.h"
#include "tests/data/allocations.h"
#include "tests/data/support.h"

namespace assay::data {
namespace {

using test::error_of;
using testing::HasSubstr;

const std::string kImages = ASSAY_SOURCE_DIR "/tests/fixtures/images/";
const char* const kFiles[] = {
    "colour_420.jpg",  "colour_422.jpg", "colour_444.jpg", "progressive_420.jpg",
    "restart_420.jpg", "grey.jpg",       "rgb.jpg",        "cmyk.jpg",
    "wide.jpg",        "tall.jpg",       "one_pixel.jpg"};

struct Picture {
  int height = 0, width = 0;
  std::string rgb;
};

// A window of the image at `eighths` / 8; the whole image for an empty window.
Picture decode(JpegDecoder& decoder, const std::string& file, Rectangle window = {},
               int eighths = 8) {
  const JpegInfo info = decoder.open(file);
  if (window.height == 0) {
    window = {0, 0, scaled_jpeg_size(info.height, eighths), scaled_jpeg_size(info.width, eighths)};
  }
  decoder.start(window, eighths);
  Picture picture{window.height, window.width, {}};
  for (int y = 0; y < window.height; ++y) {
    const auto* row = reinterpret_cast<const char*>(decoder.next_row());
    for (int x = 0; x < window.width; ++x) picture.rgb.append(row + 4 * x, 3);
  }
  return picture;
}

Picture cut(const Picture& from, const Rectangle& window) {
  Picture part{window.height, window.width, {}};
  for (int y = window.top; y < window.top + window.height; ++y) {
    part.rgb += from.rgb.substr(3 * static_cast<size_t>(y * from.width + window.left),
                                3 * static_cast<size_t>(window.width));
  }
  return part;
}

struct Expected {
  int width, height;
  std::string sha256;
};

// Operation -> what Pillow made of the file.
std::map<std::string, Expected> expected_of(const std::string& name) {
  std::map<std::string, Expected> rows;
  std::ifstream table(kImages + "expected.tsv");
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string file, operation;
    Expected row;
    fields >> file >> operation >> row.width >> row.height >> row.sha256;
    if (file == name) rows[operation] = row;
  }
  return rows;
}

class JpegFile : public testing::TestWithParam<const char*> {
 protected:
  std::string name_ = GetParam();
  std::string file_ = read_file(kImages + name_);
  JpegDecoder decoder_;
};

TEST_P(JpegFile, DecodesAsPillow) {
  const Expected expected = expected_of(name_).at("whole");
  const Picture picture = decode(decoder_, file_);
  EXPECT_EQ(picture.width, expected.width);
  EXPECT_EQ(picture.height, expected.height);
  EXPECT_EQ(sha256_hex(picture.rgb), expected.sha256);
}

// Whatever part is asked for, at whatever scale, its pixels are those of the whole image.
TEST_P(JpegFile, WindowsArePartsOfTheWhole) {
  PhiloxStream random(1, 1);
  const auto draw = [&](int size) {
    return static_cast<int>(random.below(static_cast<uint32_t>(size)));
  };
  for (const int eighths : {8, 4, 2, 1}) {
    const Picture whole = decode(decoder_, file_, {}, eighths);
    for (int attempt = 0; attempt < 150; ++attempt) {
      Rectangle window{draw(whole.height), draw(whole.width), 0, 0};
      window.height = 1 + draw(whole.height - window.top);
      window.width = 1 + draw(whole.width - window.left);
      const Picture part = decode(decoder_, file_, window, eighths);
      ASSERT_EQ(part.rgb, cut(whole, window).rgb)
          << eighths << "/8, " << window.width << " x " << window.height << " at " << window.left
          << ", " << window.top;
    }
  }
}

TEST_P(JpegFile, EveryTruncationIsWholeOrRefused) {
  const Picture whole = decode(decoder_, file_);
  const size_t stride = file_.size() / 300 + 1;
  size_t tried = 0, refused = 0;
  for (size_t length = 0; length < file_.size(); length += stride, ++tried) {
    const std::string cut_file = file_.substr(0, length);
    Picture picture;
    const Error error = error_of([&] { picture = decode(decoder_, cut_file); });
    if (error.code() == Code::kOk) {
      ASSERT_EQ(picture.rgb, whole.rgb) << length;  // only what follows the pixels is missing
    } else {
      ASSERT_EQ(error.code(), Code::kFormat) << length << ": " << error.message();
      ++refused;
    }
  }
  EXPECT_GE(refused, tried - 4);
  EXPECT_EQ(decode(decoder_, file_).rgb, whole.rgb);  // a failure leaves nothing behind
}

INSTANTIATE_TEST_SUITE_P(Kinds, JpegFile, testing::ValuesIn(kFiles), [](const auto& kind) {
  const std::string name = kind.param;
  return name.substr(0, name.find('.'));
});

TEST(Jpeg, TellsKindAndSize) {
  JpegDecoder decoder;
  const auto info = [&](const char* name) { return decoder.open(read_file(kImages + name)); };
  const std::string cmyk = read_file(kImages + "cmyk.jpg"), grey = read_file(kImages + "grey.jpg");
  EXPECT_EQ(decoder.open(cmyk).color, JpegColor::kCmyk);
  EXPECT_EQ(decoder.open(cmyk).height, 60);
  EXPECT_EQ(decoder.open(cmyk).width, 45);
  EXPECT_EQ(decoder.open(grey).color, JpegColor::kGrey);
  EXPECT_EQ(info("wide.jpg").color, JpegColor::kColor);
}

TEST(Jpeg, OtherFilesAreRefused) {
  JpegDecoder decoder;
  const std::string png = read_file(kImages + "png_named.JPEG");
  EXPECT_FALSE(looks_like_jpeg(png));
  const Error error = error_of([&] { decoder.open(png); });
  EXPECT_EQ(error.code(), Code::kFormat);
  EXPECT_THAT(error.message(), HasSubstr("no JPEG"));
  EXPECT_EQ(error_of([&] { decoder.open(""); }).code(), Code::kFormat);
  EXPECT_EQ(error_of([&] { decoder.open("\xff\xd8\xff"); }).code(), Code::kFormat);
}

// Byte offset of the frame header's content: precision, height, width.
size_t frame_header(const std::string& file) {
  const size_t marker = file.find("\xff\xc0");
  EXPECT_NE(marker, std::string::npos);
  return marker + 4;
}

TEST(Jpeg, HugeSizesAndOddPrecisionsAreRefused) {
  JpegDecoder decoder;
  std::string file = read_file(kImages + "colour_444.jpg");
  const size_t header = frame_header(file);
  std::string huge = file;
  for (size_t i = 1; i <= 4; ++i) huge[header + i] = '\xfd';
  const Error too_large = error_of([&] { decoder.open(huge); });
  EXPECT_EQ(too_large.code(), Code::kUnsupported);
  EXPECT_THAT(too_large.message(), HasSubstr("65021 x 65021 pixels"));
  std::string deep = file;
  deep[header] = 12;
  EXPECT_EQ(error_of([&] { decode(decoder, deep); }).code(), Code::kUnsupported);
  std::string empty = file;
  empty[header + 3] = empty[header + 4] = 0;
  EXPECT_EQ(error_of([&] { decoder.open(empty); }).code(), Code::kFormat);
}

TEST(Jpeg, DamagedPixelsAreRefused) {
  JpegDecoder decoder;
  std::string file = read_file(kImages + "restart_420.jpg");
  const size_t restart = file.find("\xff\xd1");
  ASSERT_NE(restart, std::string::npos);
  file[restart + 1] = '\xd5';
  EXPECT_EQ(error_of([&] { decode(decoder, file); }).code(), Code::kFormat);
}

// libjpeg keeps the tables of one file for the next: what a file without them shows would depend on
// what the same worker decoded before.
TEST(Jpeg, TablesOfOneFileDoNotServeTheNext) {
  const std::string whole = read_file(kImages + "colour_444.jpg");
  std::string without = whole;
  for (size_t at = without.find("\xff\xdb"); at != std::string::npos; at = without.find("\xff\xdb"))
    without.erase(at, 2 + 256 * static_cast<uint8_t>(without[at + 2]) +
                          static_cast<uint8_t>(without[at + 3]));
  ASSERT_LT(without.size(), whole.size());
  JpegDecoder decoder;
  decode(decoder, whole);
  const Error error = error_of([&] { decode(decoder, without); });
  EXPECT_EQ(error.code(), Code::kFormat);
  EXPECT_THAT(error.message(), HasSubstr("Quantization table"));
}

TEST(Jpeg, EncodesWhatItDecodes) {
  std::string pixels;
  for (int y = 0; y < 21; ++y) {
    for (int x = 0; x < 34; ++x) {
      pixels += static_cast<char>(40 + 5 * x);
      pixels += static_cast<char>(30 + 9 * y);
      pixels += static_cast<char>(200 - 3 * x - 2 * y);
    }
  }
  const std::string file =
      encode_jpeg(reinterpret_cast<const uint8_t*>(pixels.data()), 21, 34, 100);
  JpegDecoder decoder;
  const Picture picture = decode(decoder, file);
  ASSERT_EQ(picture.width, 34);
  ASSERT_EQ(picture.rgb.size(), pixels.size());
  double squares = 0;
  for (size_t i = 0; i < pixels.size(); ++i) {
    const int difference = static_cast<uint8_t>(pixels[i]) - static_cast<uint8_t>(picture.rgb[i]);
    squares += difference * difference;
  }
  EXPECT_LT(std::sqrt(squares / static_cast<double>(pixels.size())), 1);  // levels
  EXPECT_EQ(error_of([&] { encode_jpeg(nullptr, 0, 5, 90); }).code(), Code::kUnsupported);
}

TEST(Jpeg, EncodingTellsThatMemoryRanOut) {
  constexpr int kSide = 300;
  std::string noise(3 * kSide * kSide, '\0');  // a file that outgrows its first buffers
  PhiloxStream random(1, 1);
  for (char& byte : noise) byte = static_cast<char>(random.bits());
  const auto encode = [&] {
    return encode_jpeg(reinterpret_cast<const uint8_t*>(noise.data()), kSide, kSide, 100);
  };
  const std::string file = encode();
  int64_t allocations = test::allocations_so_far();
  encode();
  allocations = test::allocations_so_far() - allocations;
  ASSERT_GE(allocations, 3);
  for (int64_t i = 0; i < allocations; ++i) {
    test::fail_allocation(i);
    EXPECT_EQ(error_of(encode).code(), Code::kOutOfHostMemory) << i;
  }
  EXPECT_EQ(encode(), file);
}

}  // namespace
}  // namespace assay::data
