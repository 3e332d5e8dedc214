#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "datasets/datasets.h"
#include "sdk/base/file.h"
#include "sdk/data/example.h"
#include "sdk/data/example.pb.h"
#include "sdk/data/jpeg.h"
#include "sdk/data/manifest.pb.h"
#include "tests/data/support.h"

namespace assay::datasets {
namespace {

using test::error_of;
using test::TemporaryFolder;
using testing::HasSubstr;

class Cifar10Test : public testing::Test {
 protected:
  const DatasetEntry& cifar10_ = find_dataset("cifar10");

  // Image i: red is i, green the row, blue the column; label i % 10.
  static std::string batch(int first, int count) {
    std::string bytes;
    for (int i = first; i < first + count; ++i) {
      bytes += static_cast<char>(i % 10);
      bytes.append(1024, static_cast<char>(i));
      for (int p = 0; p < 1024; ++p) bytes += static_cast<char>(p / 32);
      for (int p = 0; p < 1024; ++p) bytes += static_cast<char>(p % 32);
    }
    return bytes;
  }
  void put(const std::string& path, const std::string& bytes) {
    const std::string target = folder_.at("source/" + path);
    make_directories(parent_path(target));
    test::write_quickly(target, bytes);
  }
  void put_batches(const std::string& folder = "") {
    for (int k = 0; k < 5; ++k) put(cat(folder, "data_batch_", k + 1, ".bin"), batch(4 * k, 4));
    put(folder + "test_batch.bin", batch(50, 3));
  }
  data::DatasetManifest convert() {
    return cifar10_.convert({.source = folder_.at("source"), .output = folder_.at("set")});
  }
  std::string refusal() {
    return error_of([&] { convert(); }).message();
  }
  data::Example record(const std::string& split, int64_t index) {
    std::string payload;
    data::Example example;
    data::open_split(folder_.at("set"), data::read_manifest(folder_.at("set")), split)
        ->read(index, payload);
    data::parse_example(payload, example);
    return example;
  }

  TemporaryFolder folder_;
};

TEST_F(Cifar10Test, BatchesBecomeImages) {
  put_batches();
  const auto manifest = convert();
  EXPECT_EQ(manifest.splits(0).records(), 20);
  EXPECT_EQ(manifest.splits(1).records(), 3);
  EXPECT_EQ(manifest.class_names(6), "frog");
  EXPECT_EQ(manifest.sources_size(), 6);
  const data::Example example = record("train", 17);
  EXPECT_EQ(data::int64_feature(example, "label"), 7);
  const std::string& pixels = data::bytes_feature(example, "image");
  ASSERT_EQ(pixels.size(), 3072u);
  EXPECT_EQ(pixels.substr(3 * (32 * 5 + 9), 3), std::string({17, 5, 9}));
  EXPECT_EQ(cifar10_.make_transform(manifest, "").arrays[0].dims, (Dims{32, 32, 3}));
}

TEST_F(Cifar10Test, TheFolderOfThePublishedArchiveIsFound) {
  put_batches("cifar-10-batches-bin/");
  EXPECT_EQ(convert().splits(0).records(), 20);
}

TEST_F(Cifar10Test, FoldersOfJpegFiles) {
  std::string pixels(3072, '\0');
  for (const char* split : {"train", "test"}) {
    for (int label = 0; label < 10; ++label) {
      const char* const names[] = {"airplane", "automobile", "bird"};
      const std::string folder = label < 3 ? names[label] : cat(label);
      for (int image = 0; image < 2; ++image) {
        pixels.assign(3072, static_cast<char>(100 + 10 * label + image));
        put(cat(split, "/", folder, "/", image, ".jpg"),
            data::encode_jpeg(reinterpret_cast<const uint8_t*>(pixels.data()), 32, 32, 100));
      }
    }
  }
  EXPECT_EQ(convert().splits(0).records(), 20);
  const data::Example example = record("test", 13);
  EXPECT_EQ(data::int64_feature(example, "label"), 3);
  EXPECT_EQ(data::bytes_feature(example, "image"), std::string(3072, static_cast<char>(131)));
}

TEST_F(Cifar10Test, BadSources) {
  make_directories(folder_.at("source"));
  EXPECT_THAT(refusal(), HasSubstr("holds neither data_batch_1.bin"));
  put_batches();
  put("data_batch_3.bin", batch(0, 2).substr(1));
  EXPECT_THAT(refusal(), HasSubstr("data_batch_3.bin has 6145 bytes, expected a multiple of 3073"));
  put("data_batch_3.bin", "\x0b" + batch(0, 1).substr(1));
  EXPECT_THAT(refusal(), HasSubstr("label 0 is 11, expected 0 to 9"));
  remove_file(folder_.at("source/data_batch_1.bin"));
  put("train/0/a.jpg", "junk");
  make_directories(folder_.at("source/test"));
  EXPECT_THAT(refusal(), HasSubstr("train has no folder 1 or automobile"));
  for (int label = 1; label < 10; ++label)
    make_directories(folder_.at(cat("source/train/", label)));
  EXPECT_THAT(refusal(), HasSubstr("0/a.jpg: the 4 bytes of the image are no JPEG"));
  std::string small(12, 'x');
  put("train/0/a.jpg", data::encode_jpeg(reinterpret_cast<const uint8_t*>(small.data()), 2, 2, 90));
  EXPECT_THAT(refusal(), HasSubstr("the image has 2 x 2 pixels, expected 32 x 32"));
}

}  // namespace
}  // namespace assay::datasets
