// What OpenCV makes of real picture files, whole and damaged: all pages or none.
#include "tools/common/picture_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <tiffio.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <string>
#include <vector>

#include "tools/common/abi.h"
#include "tools/common/picture_check.h"

namespace assay::tools {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

struct Page {
  int height, width, channels, bits;
  std::string bytes;
};

struct Answer {
  int32_t status = 0;
  std::vector<Page> pages;
};

Answer read(const std::string& file) {
  Answer answer;
  const auto give = [](void* to, const assay_picture* page) {
    const auto row = static_cast<size_t>(page->width * page->channels * page->bits / 8);
    std::string bytes;
    for (int y = 0; y < page->height; ++y)
      bytes.append(static_cast<const char*>(page->data) + y * page->row_bytes, row);
    static_cast<Answer*>(to)->pages.push_back(
        {page->height, page->width, page->channels, page->bits, bytes});
  };
  answer.status = read_pictures(0, file.data(), file.size(), give, &answer);
  return answer;
}

class PictureReaderTest : public testing::Test {
 protected:
  PictureReaderTest()
      : folder_(fs::path(testing::TempDir()) / ("pictures_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~PictureReaderTest() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string bytes_of(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void put(const std::string& name, const std::string& bytes) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(path(name), std::ios::binary) << bytes;
  }
  std::string written(const std::string& name, const cv::Mat& picture) const {
    fs::create_directories((folder_ / name).parent_path());
    EXPECT_TRUE(cv::imwrite(path(name), picture));
    return bytes_of(name);
  }

  // A page per number, of grey noise that compresses badly.
  std::string stack(int pages, int side = 64) const {
    std::vector<cv::Mat> all;
    for (int page = 0; page < pages; ++page) {
      cv::Mat& picture = all.emplace_back(side, side, CV_8U);
      cv::RNG noise(static_cast<uint64_t>(page) + 1);
      noise.fill(picture, cv::RNG::UNIFORM, 0, 256);
    }
    EXPECT_TRUE(cv::imwritemulti(path("stack.tif"), all));
    return bytes_of("stack.tif");
  }

  // Where a page's list of tags and its first strip of pixels begin in "stack.tif".
  struct Places {
    uint64_t tags, pixels, pixel_bytes;
  };
  Places places_of(uint16_t page) const {
    TIFF* tiff = TIFFOpen(path("stack.tif").c_str(), "r");
    EXPECT_NE(TIFFSetDirectory(tiff, page), 0);
    uint64_t *offsets = nullptr, *counts = nullptr;
    EXPECT_NE(TIFFGetField(tiff, TIFFTAG_STRIPOFFSETS, &offsets), 0);
    EXPECT_NE(TIFFGetField(tiff, TIFFTAG_STRIPBYTECOUNTS, &counts), 0);
    const Places places{TIFFCurrentDirOffset(tiff), offsets[0], counts[0]};
    TIFFClose(tiff);
    return places;
  }

  // Behind a page's list of tags, the place of the next page included.
  size_t end_of_tags(const std::string& file, uint16_t page) const {
    const uint64_t at = places_of(page).tags;
    uint16_t tags = 0;
    std::memcpy(&tags, file.data() + at, sizeof tags);
    return at + 2 + size_t{12} * tags + 4;
  }

  fs::path folder_;
};

TEST_F(PictureReaderTest, AllPagesOfAStack) {
  const Answer answer = read(stack(5));
  EXPECT_EQ(answer.status, 0);
  ASSERT_EQ(answer.pages.size(), 5u);
  for (int page = 0; page < 5; ++page) {
    cv::Mat expected(64, 64, CV_8U);
    cv::RNG noise(static_cast<uint64_t>(page) + 1);
    noise.fill(expected, cv::RNG::UNIFORM, 0, 256);
    const Page& got = answer.pages[static_cast<size_t>(page)];
    EXPECT_EQ(got.bytes, std::string(reinterpret_cast<const char*>(expected.data), 64 * 64))
        << page;
    EXPECT_EQ(got.channels * got.bits, 8);
  }
}

// Wherever it is cut, nothing is given: not the pages before the cut either.
TEST_F(PictureReaderTest, AStackCutAnywhereIsRefused) {
  const std::string whole = stack(5);
  std::vector<size_t> sizes{places_of(2).tags, places_of(2).pixels, whole.size() - 1};
  for (size_t size = 1; size < whole.size(); size += whole.size() / 50) sizes.push_back(size);
  for (size_t back = 1; back < 20; ++back) sizes.push_back(end_of_tags(whole, 1) - back);
  for (const size_t size : sizes) {
    const Answer answer = read(whole.substr(0, size));
    EXPECT_NE(answer.status, 0) << size;
    EXPECT_TRUE(answer.pages.empty()) << size;
  }
}

TEST_F(PictureReaderTest, ACutOrDamagedPngIsRefused) {
  stack(1);
  const std::string whole = written("whole.png", cv::imread(path("stack.tif")));
  EXPECT_EQ(read(whole).status, 0);
  for (const size_t size : {whole.size() / 3, whole.size() / 2, whole.size() - 20})
    EXPECT_NE(read(whole.substr(0, size)).status, 0) << size;
  std::string damaged = whole;
  damaged[whole.size() / 2] = static_cast<char>(damaged[whole.size() / 2] ^ 1);
  EXPECT_NE(read(damaged).status, 0) << "one bit";
}

TEST_F(PictureReaderTest, ADamagedSecondPageIsRefused) {
  const std::string whole = stack(5);
  const Places second = places_of(1);
  std::string damaged = whole;
  damaged.replace(second.pixels, second.pixel_bytes, second.pixel_bytes, '\xff');
  EXPECT_NE(read(damaged).status, 0) << "pixels";
  EXPECT_TRUE(read(damaged).pages.empty());
  damaged = whole;
  damaged.replace(second.tags, 2, 2, '\xff');
  EXPECT_NE(read(damaged).status, 0) << "number of tags";
  // The list of pages goes back to the first one, for ever.
  damaged = whole;
  const auto back = static_cast<uint32_t>(places_of(0).tags);
  std::memcpy(damaged.data() + end_of_tags(whole, 1) - 4, &back, sizeof back);
  EXPECT_NE(read(damaged).status, 0) << "a ring of pages";
}

TEST_F(PictureReaderTest, SixteenBitsAndColoursStayWhatTheyAre) {
  cv::Mat deep(3, 4, CV_16U);
  for (int i = 0; i < 12; ++i) deep.at<uint16_t>(i / 4, i % 4) = static_cast<uint16_t>(5000 * i);
  for (const char* name : {"deep.tif", "deep.png"}) {
    const Answer answer = read(written(name, deep));
    ASSERT_EQ(answer.pages.size(), 1u) << name;
    EXPECT_EQ(answer.pages[0].bits, 16);
    EXPECT_EQ(answer.pages[0].channels, 1);
    EXPECT_EQ(std::memcmp(answer.pages[0].bytes.data(), deep.data, 24), 0) << name;
  }
  const cv::Mat colour(3, 4, CV_8UC3, cv::Scalar(10, 20, 200));  // blue, green, red
  const cv::Mat deep_colour(3, 4, CV_16UC3, cv::Scalar(1000, 2000, 20000));
  const cv::Mat clear(3, 4, CV_8UC4, cv::Scalar(10, 20, 200, 128));
  for (const char* kind : {".tif", ".png"}) {
    const Answer answer = read(written(std::string("colour") + kind, colour));
    ASSERT_EQ(answer.pages.size(), 1u) << kind;
    EXPECT_EQ(answer.pages[0].channels, 3);
    EXPECT_EQ(answer.pages[0].bytes.substr(0, 3), "\xc8\x14\x0a") << kind;
    const Answer deeper = read(written(std::string("deep_colour") + kind, deep_colour));
    ASSERT_EQ(deeper.pages.size(), 1u) << kind;
    EXPECT_EQ(deeper.pages[0].bits, 16);
    uint16_t red = 0;
    std::memcpy(&red, deeper.pages[0].bytes.data(), sizeof red);
    EXPECT_EQ(red, 20000) << kind;
    const Answer opaque = read(written(std::string("clear") + kind, clear));
    ASSERT_EQ(opaque.pages.size(), 1u) << kind;
    EXPECT_EQ(opaque.pages[0].channels, 4);
    EXPECT_EQ(opaque.pages[0].bytes.substr(0, 4), "\xc8\x14\x0a\x80") << kind;
  }
}

void put_big_endian(std::string& file, size_t at, uint32_t value) {
  for (size_t i = 0; i < 4; ++i) file[at + i] = static_cast<char>(value >> (24 - 8 * i));
}

// A few bytes that promise gigabytes.
TEST_F(PictureReaderTest, HugePicturesAreRefusedBeforeTheyAreDecoded) {
  std::string png = written("small.png", cv::Mat(4, 4, CV_8U, cv::Scalar(7)));
  EXPECT_EQ(whole_pages(png, path("small.png")), 1u);
  put_big_endian(png, 16, 1u << 15), put_big_endian(png, 20, 1u << 14);
  EXPECT_EQ(whole_pages(png, ""), std::nullopt);
  EXPECT_NE(read(png).status, 0);
  put_big_endian(png, 16, 1u << 31), put_big_endian(png, 20, 1u << 31);
  EXPECT_EQ(whole_pages(png, ""), std::nullopt);
  EXPECT_EQ(whole_pages(png.substr(0, 20), ""), std::nullopt);

  const auto claim = [&](uint32_t width, uint32_t height, uint16_t bits, int pages) {
    TIFF* tiff = TIFFOpen(path("claim.tif").c_str(), "w");
    for (int page = 0; page < pages; ++page) {
      TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, width);
      TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, height);
      TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, bits);
      TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
      TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
      TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, height);
      TIFFSetField(tiff, TIFFTAG_COMPRESSION, COMPRESSION_ADOBE_DEFLATE);
      const auto bytes = static_cast<tmsize_t>(width + 7) / 8 * height * bits;
      std::vector<char> pixels(static_cast<size_t>(bytes));
      TIFFWriteEncodedStrip(tiff, 0, pixels.data(), bytes);
      TIFFWriteDirectory(tiff);
    }
    TIFFClose(tiff);
    return whole_pages(bytes_of("claim.tif"), path("claim.tif"));
  };
  EXPECT_EQ(claim(16384, 16384, 1, 1), 1u);
  EXPECT_EQ(claim(16385, 16384, 1, 1), std::nullopt);
  EXPECT_EQ(claim(16384, 8192, 1, 2), 2u);
  EXPECT_EQ(claim(16384, 8192, 1, 3), std::nullopt) << "its pages together";
  EXPECT_EQ(claim(64, 64, 16, 1), 1u);
  EXPECT_EQ(claim(64, 64, 32, 1), std::nullopt) << "of 32 bits each";
}

TEST_F(PictureReaderTest, WhatIsNoPictureIsRefused) {
  for (const std::string& file :
       {std::string(), std::string("II"), std::string("II*\0", 4), std::string("no picture at all"),
        std::string("\x89PNG\r\n\x1a\nrest")}) {
    const Answer answer = read(file);
    EXPECT_NE(answer.status, 0) << file;
    EXPECT_TRUE(answer.pages.empty());
  }
}

size_t open_files() {
  const fs::directory_iterator entries("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(entries), end(entries)));
}

TEST_F(PictureReaderTest, LeavesNoFileOpen) {
  const std::string whole = stack(2);
  const std::string cut = whole.substr(0, whole.size() / 2);
  read(whole), read(cut);
  const size_t before = open_files();
  for (int i = 0; i < 10; ++i) read(whole), read(cut), read("no picture at all");
  EXPECT_EQ(open_files(), before);
}

// The converter of slices over the real decoder.
class SlicesTest : public PictureReaderTest {
 protected:
  SlicesTest() {
    assay_host host{};
    host.struct_size = sizeof host;
    host.read_image = read_pictures;
    assay_context* context = nullptr;
    call(assay_context_create, nullptr, &host, nullptr, size_t{0}, &context);
    context_.reset(context);
    written("source/train/image/00.png", cv::Mat(512, 512, CV_8U, cv::Scalar(9)));
    written("source/train/label/00.png", cv::Mat(512, 512, CV_8U, cv::Scalar(255)));
  }

  // "" if the folder could be converted, else why not.
  std::string convert() {
    const std::string from = path("source"), to = path("out");
    fs::remove_all(to);
    try {
      call(assay_dataset_convert, context_.get(), text("isbi2012_em"), text(from), text(to),
           text(""), nullptr, uintptr_t{0}, nullptr);
    } catch (const Error& failure) {
      return failure.what();
    }
    return "";
  }

  Context context_;
};

TEST_F(SlicesTest, OfOtherKindsAreRefusedByName) {
  EXPECT_EQ(convert(), "");
  written("source/train/image/01.tif", cv::Mat(512, 512, CV_16U, cv::Scalar(9)));
  written("source/train/label/01.tif", cv::Mat(512, 512, CV_8U, cv::Scalar(255)));
  EXPECT_THAT(convert(), HasSubstr("01.tif has 16 bits per pixel, expected 8"));
  written("source/train/image/01.tif", cv::Mat(512, 512, CV_8UC3, cv::Scalar(9, 9, 8)));
  EXPECT_THAT(convert(), HasSubstr("01.tif has colours"));
  written("source/train/image/01.tif", cv::Mat(512, 512, CV_8UC3, cv::Scalar(9, 9, 9)));
  EXPECT_EQ(convert(), "");
  const std::string cut = stack(3, 512);
  put("source/train/image/01.tif", cut.substr(0, cut.size() / 2));
  EXPECT_THAT(convert(), AllOf(HasSubstr("01.tif: the"), HasSubstr("cut short")));
}

}  // namespace
}  // namespace assay::tools
