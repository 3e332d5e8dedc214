// The converter on made-up slices; a decoder of our own stands in for TIFF and PNG.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "datasets/datasets.h"
#include "sdk/base/file.h"
#include "sdk/data/example.h"
#include "sdk/data/example.pb.h"
#include "sdk/data/loader.h"
#include "sdk/data/manifest.pb.h"
#include "tests/data/support.h"

namespace assay::datasets {
namespace {

using test::error_of;
using test::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;

constexpr size_t kPixels = 512 * 512;

// Pages one after the other: "width height channels bits ", then the bytes.
std::string page_of(const std::string& bytes, int width = 512, int height = 512, int channels = 1,
                    int bits = 8) {
  return cat(width, " ", height, " ", channels, " ", bits, " ", bytes);
}

std::vector<data::PixelPage> read_pages(std::string_view file) {
  std::vector<data::PixelPage> pages;
  while (!file.empty()) {
    data::PixelPage page;
    int used = 0;
    require(std::sscanf(std::string(file.substr(0, 40)).c_str(), "%d %d %d %d%n", &page.width,
                        &page.height, &page.channels, &page.bits, &used) == 4,
            Code::kFormat, "not decodable");
    const auto bytes =
        static_cast<size_t>(page.width * page.height * page.channels * page.bits / 8);
    page.bytes = std::string(file.substr(static_cast<size_t>(used) + 1, bytes));
    file.remove_prefix(static_cast<size_t>(used) + 1 + bytes);
    pages.push_back(std::move(page));
  }
  return pages;
}

class Isbi2012EmTest : public testing::Test {
 protected:
  Isbi2012EmTest() { make_directories(folder_.at("source")); }
  void put(const std::string& name, const std::string& content) {
    const std::string path = folder_.at("source/" + name);
    make_directories(path.substr(0, path.rfind('/')));
    test::write_quickly(path, content);
  }
  void put_pairs(int count) {
    for (int i = 0; i < count; ++i) {
      put(cat("train/image/0", i, ".png"), page_of(std::string(kPixels, static_cast<char>(i))));
      put(cat("train/label/0", i, ".png"), page_of(std::string(kPixels, '\xff')));
    }
  }
  ConvertOptions options() const {
    return {.source = folder_.at("source"), .output = folder_.at("out"), .read_image = read_pages};
  }
  data::DatasetManifest convert() { return find_dataset("isbi2012_em").convert(options()); }
  Error refusal() {
    Error error = error_of([&] { convert(); });
    EXPECT_FALSE(path_exists(folder_.at("out/dataset.json")));
    return error;
  }

  TemporaryFolder folder_;
};

TEST_F(Isbi2012EmTest, MultiPageTiff) {
  std::string images, masks, tests;
  for (int i = 0; i < 3; ++i) {
    images += page_of(std::string(kPixels, static_cast<char>(10 * i)));
    masks += page_of(std::string(kPixels, i == 1 ? '\0' : '\xff'));
    tests += page_of(std::string(kPixels, 'x'));
  }
  put("train-volume.tif", images);
  put("train-labels.tif", masks);
  put("test-volume.tif", tests);
  const data::DatasetManifest manifest = convert();
  ASSERT_EQ(manifest.splits_size(), 2);
  EXPECT_EQ(manifest.splits(0).name(), "train");
  EXPECT_EQ(manifest.splits(0).records(), 3);
  EXPECT_EQ(manifest.splits(1).records(), 3);
  EXPECT_THAT(manifest.class_names(), testing::ElementsAre("membrane", "background"));
  data::verify_dataset(folder_.at("out"), {});

  data::LoaderConfig config;
  config.batch_size = 3, config.order = "sequential";
  const auto load = [&](const std::string& split) {
    auto loader = std::make_unique<data::Loader>(
        data::open_split(folder_.at("out"), manifest, split),
        find_dataset("isbi2012_em").make_transform(manifest, ""), config);
    return loader;
  };
  const auto loader = load("train");
  const data::Batch& batch = *loader->next();
  const auto& image = batch.array("image");
  const auto& target = batch.array("target");
  ASSERT_EQ(image.dims, (Dims{3, 572, 572, 1}));
  ASSERT_EQ(target.dims, (Dims{3, 388, 388, 2}));
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(image.as<float>()[i * 572 * 572 + 300 * 572 + 300], 10.0 * i / 127.5 - 1, 1e-6);
    EXPECT_EQ(target.as<float>()[i * 388 * 388 * 2], i == 1 ? 1 : 0);
  }
  const auto test_loader = load("test");
  EXPECT_EQ(test_loader->next()->array("target").as<float>()[0], 0);
}

TEST_F(Isbi2012EmTest, FoldersOfPairs) {
  put_pairs(3);
  const data::DatasetManifest manifest = convert();
  EXPECT_EQ(manifest.splits(0).records(), 3);
  EXPECT_EQ(manifest.sources_size(), 6);
  const std::string digest = manifest.splits(0).content_sha256();
  EXPECT_EQ(convert().splits(0).content_sha256(), digest);  // is there already
}

TEST_F(Isbi2012EmTest, NumbersThatDoNotSortAreRefused) {
  put_pairs(3);
  put("train/image/10.png", page_of(std::string(kPixels, 'x')));
  put("train/label/10.png", page_of(std::string(kPixels, '\xff')));
  EXPECT_EQ(convert().splits(0).records(), 4);
  std::filesystem::remove_all(folder_.at("out"));
  for (const char* part : {"image", "label"})
    std::filesystem::rename(folder_.at(cat("source/train/", part, "/02.png")),
                            folder_.at(cat("source/train/", part, "/2.png")));
  const Error error = refusal();
  EXPECT_EQ(error.code(), Code::kFormat);
  EXPECT_THAT(error.message(), HasSubstr("image/2.png: slices are taken in the order"));
}

TEST_F(Isbi2012EmTest, PairsOfSeveralPages) {
  std::string images, masks;
  for (int i = 0; i < 3; ++i) {
    images += page_of(std::string(kPixels, 'x'));
    masks += page_of(std::string(kPixels, i == 2 ? '\x07' : '\xff'));
  }
  for (const char* name : {"a.tif", "b.tif"}) {
    put(std::string("train/image/") + name, images);
    put(std::string("train/label/") + name, masks);
  }
  const Error error = error_of([&] { convert(); });
  EXPECT_THAT(error.message(), testing::HasSubstr("a.tif, page 2: the mask is 7"));
}

// Two pages and one against masks of one and two: as many in all, and yet not of these images.
TEST_F(Isbi2012EmTest, PairsOfUnequalPagesAreRefused) {
  const std::string one = page_of(std::string(kPixels, '\xff'));
  put("train/image/a.tif", one + one);
  put("train/image/b.tif", one);
  put("train/label/a.tif", one);
  put("train/label/b.tif", one + one);
  const Error error = refusal();
  EXPECT_EQ(error.code(), Code::kFormat);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("image/a.tif has 2 pages, its masks in "),
                                     HasSubstr("label/a.tif have 1")));
}

// What is only to be labelled: files in the order of their names, or one file.
TEST_F(Isbi2012EmTest, SlicesWithoutMasksAreATestSplit) {
  put("b.tif", page_of(std::string(kPixels, 'b')) + page_of(std::string(kPixels, 'c')));
  put("a.png", page_of(std::string(kPixels, 'a')));
  const data::DatasetManifest manifest = convert();
  ASSERT_EQ(manifest.splits_size(), 1);
  EXPECT_EQ(manifest.splits(0).name(), "test");
  data::LoaderConfig config;
  config.batch_size = 3, config.order = "sequential";
  data::Loader loader(data::open_split(folder_.at("out"), manifest, "test"),
                      find_dataset("isbi2012_em").make_transform(manifest, ""), config);
  const auto* image = loader.next()->array("image").as<float>();
  for (int i = 0; i < 3; ++i)
    EXPECT_NEAR(image[i * 572 * 572 + 300 * 572 + 300], ('a' + i) / 127.5 - 1, 1e-6);
  ConvertOptions single = options();
  single.source = folder_.at("source/b.tif"), single.output = folder_.at("out_single");
  EXPECT_EQ(find_dataset("isbi2012_em").convert(single).splits(0).records(), 2);
}

TEST_F(Isbi2012EmTest, GreyColoursAreTaken) {
  put_pairs(1);
  std::string grey;
  for (size_t i = 0; i < kPixels; ++i) grey.append(3, static_cast<char>(i % 200));
  put("train/image/00.png", page_of(grey, 512, 512, 3));
  EXPECT_EQ(convert().splits(0).records(), 1);
}

TEST_F(Isbi2012EmTest, RefusesWhatItWouldHaveToGuess) {
  put_pairs(2);
  const auto with_image = [&](const std::string& page) {
    put("train/image/01.png", page);
    return refusal().message();
  };
  EXPECT_THAT(with_image(page_of(std::string(100, 'x'), 10, 10)),
              HasSubstr("01.png is 10 x 10 pixels, expected 512 x 512"));
  EXPECT_THAT(with_image(page_of(std::string(2 * kPixels, 'x'), 512, 512, 1, 16)),
              HasSubstr("01.png has 16 bits per pixel, expected 8"));
  std::string coloured(3 * kPixels, 'x');
  coloured[301] = 'y';
  EXPECT_THAT(with_image(page_of(coloured, 512, 512, 3)), HasSubstr("01.png has colours"));
  EXPECT_THAT(with_image("nonsense"), HasSubstr("01.png: not decodable"));
  put("train/image/01.png", page_of(std::string(kPixels, 'x')));
  std::string mask(kPixels, '\0');
  mask[512 * 3 + 4] = 7;
  put("train/label/01.png", page_of(mask));
  EXPECT_THAT(refusal().message(), HasSubstr("01.png: the mask is 7 at row 3, column 4"));
}

TEST_F(Isbi2012EmTest, RefusesIncompleteSources) {
  EXPECT_EQ(refusal().code(), Code::kNotFound);
  EXPECT_THAT(refusal().message(), HasSubstr("train-volume.tif"));
  put("train-labels.tif", page_of(std::string(kPixels, '\0')));
  EXPECT_EQ(refusal().code(), Code::kNotFound) << "masks taken for slices";
  remove_file(folder_.at("source/train-labels.tif"));
  put_pairs(2);
  put("train/image/extra.png", page_of(std::string(kPixels, 'x')));
  EXPECT_THAT(refusal().message(), HasSubstr("extra.png has no mask of the same name"));
  put("train/label/extra.png", page_of(std::string(kPixels, '\0')));
  put("train/label/lonely.png", page_of(std::string(kPixels, '\0')));
  EXPECT_THAT(refusal().message(), HasSubstr("lonely.png is a mask without an image"));
  put("train-volume.tif", page_of(std::string(kPixels, 'x')) + page_of(std::string(kPixels, 'x')));
  EXPECT_THAT(refusal().message(), HasSubstr("train-labels.tif is missing"));
  put("train-labels.tif", page_of(std::string(kPixels, '\0')));
  EXPECT_THAT(refusal().message(), AllOf(HasSubstr("train-volume.tif has 2 pages, its masks in "),
                                         HasSubstr(" have 1")));
  ConvertOptions without = options();
  without.read_image = {};
  EXPECT_THAT(error_of([&] { find_dataset("isbi2012_em").convert(without); }).message(),
              HasSubstr("libopencv-imgcodecs-dev"));
}

TEST_F(Isbi2012EmTest, FoldersThatCannotBeReadAreNamed) {
  put_pairs(1);
  std::filesystem::remove_all(folder_.at("source/train/label"));
  std::filesystem::create_symlink("label", folder_.at("source/train/label"));  // to itself
  EXPECT_EQ(refusal().code(), Code::kIo);
  EXPECT_THAT(refusal().message(), HasSubstr("train/label"));
}

}  // namespace
}  // namespace assay::datasets
