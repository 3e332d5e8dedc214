#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "datasets/datasets.h"
#include "datasets/idx.h"
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
using testing::HasSubstr;

const DatasetEntry& fashion() { return find_dataset("fashion_mnist"); }

std::string big_endian(std::initializer_list<uint32_t> words) {
  std::string bytes;
  for (const uint32_t word : words) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(word >> shift);
  }
  return bytes;
}

// A made-up source: image i has pixels i, label i % 10.
class FashionMnistTest : public testing::Test {
 protected:
  FashionMnistTest() {
    make_directories(source());
    write_split("train", 20, 20);
    write_split("t10k", 7, 7);
  }
  std::string source() const { return folder_.at("source"); }
  std::string output() const { return folder_.at("output"); }
  void write_split(const std::string& prefix, uint32_t images, uint32_t labels,
                   int bad_label = -1) {
    std::string pixels = big_endian({0x803, images, 28, 28});
    for (uint32_t i = 0; i < images; ++i) pixels.append(28 * 28, static_cast<char>(i));
    std::string classes = big_endian({0x801, labels});
    for (uint32_t i = 0; i < labels; ++i) classes += static_cast<char>(i % 10);
    if (bad_label >= 0) classes.back() = static_cast<char>(bad_label);
    write_file_atomic(source() + "/" + prefix + "-images-idx3-ubyte", pixels);
    write_file_atomic(source() + "/" + prefix + "-labels-idx1-ubyte", classes);
  }
  ConvertOptions options() const { return {.source = source(), .output = output()}; }
  Error convert_error() {
    Error error = error_of([&] { fashion().convert(options()); });
    EXPECT_FALSE(path_exists(output() + "/dataset.json"));
    return error;
  }

  TemporaryFolder folder_;
};

TEST_F(FashionMnistTest, ConvertsAndLoads) {
  const data::DatasetManifest manifest = fashion().convert(options());
  EXPECT_EQ(manifest.dataset(), "fashion_mnist");
  EXPECT_EQ(manifest.classes(), 10);
  ASSERT_EQ(manifest.class_names_size(), 10);
  ASSERT_EQ(manifest.sources_size(), 4);
  EXPECT_EQ(manifest.sources(0).file(), "train-images-idx3-ubyte");
  EXPECT_EQ(manifest.sources(0).bytes(), 16u + 20 * 784);
  EXPECT_EQ(manifest.splits(0).shards_size(), 4);
  data::verify_dataset(output(), {});

  data::LoaderConfig config;
  config.batch_size = 8;
  config.order = "sequential";
  config.last_batch = "pad";
  config.epochs = 1;
  data::Loader loader(data::open_split(output(), manifest, "train"),
                      fashion().make_transform(manifest, ""), config);
  int64_t seen = 0;
  while (const data::Batch* batch = loader.next()) {
    const auto& image = batch->array("image");
    EXPECT_EQ(image.dims, (Dims{8, 28, 28, 1}));
    for (int64_t row = 0; row < batch->valid; ++row, ++seen) {
      EXPECT_EQ(batch->array("label").as<int32_t>()[row], seen % 10);
      EXPECT_FLOAT_EQ(image.as<float>()[row * 784], static_cast<float>(seen) / 255);
      EXPECT_FLOAT_EQ(image.as<float>()[row * 784 + 783], static_cast<float>(seen) / 255);
    }
  }
  EXPECT_EQ(seen, 20);
}

TEST_F(FashionMnistTest, RecordsHoldTheDocumentedFeatures) {
  const auto manifest = fashion().convert(options());
  std::string payload;
  data::open_split(output(), manifest, "test")->read(3, payload);
  data::Example example;
  data::parse_example(payload, example);
  EXPECT_EQ(example.features().feature_size(), 5);
  EXPECT_EQ(data::bytes_feature(example, "image"), std::string(784, 3));
  EXPECT_EQ(data::int64_feature(example, "height"), 28);
  EXPECT_EQ(data::int64_feature(example, "width"), 28);
  EXPECT_EQ(data::int64_feature(example, "channels"), 1);
  EXPECT_EQ(data::int64_feature(example, "label"), 3);
}

TEST_F(FashionMnistTest, ConvertingAgainIsFree) {
  fashion().convert(options());
  const std::string manifest = read_file(output() + "/dataset.json");
  ConvertOptions again = options();
  again.progress = [](const data::Progress&) {
    ADD_FAILURE() << "records were written again";
    return true;
  };
  fashion().convert(again);
  EXPECT_EQ(read_file(output() + "/dataset.json"), manifest);
  write_split("train", 21, 21);
  EXPECT_EQ(error_of([&] { fashion().convert(options()); }).code(), Code::kInvalid);
}

TEST_F(FashionMnistTest, CancelledConversionLeavesNothing) {
  ConvertOptions cancelling = options();
  cancelling.progress = [](const data::Progress& p) { return p.phase == "train"; };
  EXPECT_EQ(error_of([&] { fashion().convert(cancelling); }).code(), Code::kCancelled);
  EXPECT_FALSE(path_exists(output()));
}

TEST_F(FashionMnistTest, BadSources) {
  write_split("train", 20, 19);
  EXPECT_THAT(convert_error().message(), HasSubstr("holds 19 labels for the 20 images"));
  write_split("train", 20, 20, 10);
  EXPECT_THAT(convert_error().message(), HasSubstr("label 19 is 10, expected 0 to 9"));
  write_split("train", 0, 0);
  EXPECT_THAT(convert_error().message(), HasSubstr("dimension 0 is 0"));
  write_split("train", 20, 20);
  write_file_atomic(source() + "/train-images-idx3-ubyte", big_endian({0x803, 1, 2, 2}) + "abcd");
  EXPECT_THAT(convert_error().message(), HasSubstr("images are 2 x 2 pixels, expected 28 x 28"));
  remove_file(source() + "/train-images-idx3-ubyte");
  EXPECT_EQ(convert_error().code(), Code::kNotFound);
  EXPECT_THAT(convert_error().message(), HasSubstr("dataset-fashion-mnist"));
}

TEST_F(FashionMnistTest, OutputThatCannotBeWritten) {
  write_file_atomic(output(), "a file");
  EXPECT_EQ(error_of([&] { fashion().convert(options()); }).code(), Code::kIo);
  ConvertOptions many = options();
  many.shards = 8;  // more than the test split has records
  EXPECT_EQ(error_of([&] { fashion().convert(many); }).code(), Code::kInvalid);
}

TEST(Datasets, ListAndNames) {
  EXPECT_EQ(dataset_entries().size(), 8u);
  const Error error = error_of([] { find_dataset("mnist"); });
  EXPECT_EQ(error.code(), Code::kNotFound);
  EXPECT_THAT(error.message(), HasSubstr("fashion_mnist"));
  EXPECT_EQ(error_of([] { fashion().make_transform({}, "{\"flip\": 1}"); }).code(), Code::kInvalid);
}

// The published files, from Debian's package dataset-fashion-mnist.
TEST(FashionMnistPublished, WholeSetRoundTrip) {
  const std::string source(fashion().default_source);
  if (!path_exists(source)) GTEST_SKIP() << source << " is not installed (dataset-fashion-mnist)";
  const TemporaryFolder folder;
  const auto manifest = fashion().convert({.source = source, .output = folder.at("set")});
  EXPECT_EQ(manifest.splits(0).records(), 60000);
  EXPECT_EQ(manifest.splits(1).records(), 10000);
  const IdxArray images = read_idx(source + "/train-images-idx3-ubyte.gz", 3);
  const IdxArray labels = read_idx(source + "/train-labels-idx1-ubyte.gz", 1);
  data::LoaderConfig config;
  config.batch_size = 1000;
  config.order = "sequential";
  config.epochs = 1;
  data::Loader loader(data::open_split(folder.at("set"), manifest, "train"),
                      fashion().make_transform(manifest, "{\"scale\": 1}"), config);
  std::vector<int> per_class(10);
  int64_t different = 0, seen = 0;
  while (const data::Batch* batch = loader.next()) {
    const float* pixels = batch->array("image").as<float>();
    for (int64_t i = 0; i < 784 * 1000; ++i)
      different += pixels[i] != images.data()[seen * 784 + i];
    for (int64_t row = 0; row < 1000; ++row, ++seen) {
      const int32_t label = batch->array("label").as<int32_t>()[row];
      different += label != labels.data()[seen];
      ++per_class[static_cast<size_t>(label)];
    }
  }
  EXPECT_EQ(different, 0);
  EXPECT_THAT(per_class, testing::Each(6000));
}

}  // namespace
}  // namespace assay::datasets
