// Real photographs: 43 original files of ImageNet, if the sample data are there.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "sdk/base/file.h"
#include "sdk/base/proto_json.h"
#include "sdk/base/sha256.h"
#include "sdk/data/augment/jpeg_transform.h"
#include "sdk/data/example.h"
#include "sdk/data/example.pb.h"
#include "sdk/data/jpeg.h"
#include "tests/data/archive.h"

namespace assay::data {
namespace {

std::string archive_path() {
  const char* folder = std::getenv("ASSAY_TEST_DATA");
  return std::string(folder != nullptr ? folder : ASSAY_SOURCE_DIR "/../shared/data") +
         "/imagenet-sample/imagenet_originals_subset.zip";
}

using test::read_archive;

class Photographs : public testing::Test {
 protected:
  void SetUp() override {
    if (!path_exists(archive_path())) {
      GTEST_SKIP() << archive_path()
                   << " is not there; name its folder's parent in ASSAY_TEST_DATA";
    }
    files_ = read_archive(archive_path());
    ASSERT_EQ(files_.size(), 43u);
  }
  static std::vector<float> run(const std::string& json, const std::string& file, uint64_t sample) {
    JpegTransformConfig config;
    parse_json(json, config, "test");
    const Transform transform = make_jpeg_transform(1, config);
    const auto maker = transform.make_worker();
    Example example;
    set_bytes_feature(example, "jpeg", file);
    set_int64_feature(example, "label", 0);
    std::string record, prepared;
    serialize_example(example, record);
    maker->prepare(record, prepared);
    std::vector<float> image(static_cast<size_t>(transform.arrays[0].dims.numel()));
    int32_t label = -1;
    std::byte* arrays[] = {reinterpret_cast<std::byte*>(image.data()),
                           reinterpret_cast<std::byte*>(&label)};
    PhiloxStream random(1, 2, sample);
    maker->finish(prepared, random, arrays);
    return image;
  }

  std::map<std::string, std::string> files_;
};

TEST_F(Photographs, EvaluationMatchesPillowToTheBit) {
  std::ifstream table(ASSAY_SOURCE_DIR "/tests/fixtures/images/imagenet_originals.tsv");
  std::string name, width, height, sha256;
  int compared = -1;  // the heading
  for (; table >> name >> width >> height >> sha256; ++compared) {
    if (compared < 0) continue;
    std::string bytes;
    for (const float value : run(R"({"scale": 1})", files_.at(name), 0)) {
      bytes += static_cast<char>(static_cast<uint8_t>(value));
    }
    EXPECT_EQ(sha256_hex(bytes), sha256) << name;
  }
  EXPECT_EQ(compared, 43);
}

// What reduced decoding changes in training, in grey levels: nothing for most windows, little for
// those of large images.
TEST_F(Photographs, ReducedDecodingStaysClose) {
  double worst = 0;
  int different = 0, windows = 0;
  for (const auto& [name, file] : files_) {
    for (uint64_t sample = 0; sample < 2; ++sample, ++windows) {
      const char* const common = R"({"crop": "random", "scale": 1, "size": 112)";
      const auto fast = run(std::string(common) + "}", file, sample);
      const auto exact = run(std::string(common) + R"(, "reduced_decoding": false})", file, sample);
      double mean = 0;
      for (size_t i = 0; i < fast.size(); ++i) {
        mean += std::abs(fast[i] - exact[i]) / static_cast<double>(fast.size());
      }
      worst = std::max(worst, mean);
      different += mean > 0 ? 1 : 0;
    }
  }
  RecordProperty("windows_decoded_reduced", different);
  RecordProperty("worst_mean_difference_in_thousandths", static_cast<int>(worst * 1000));
  EXPECT_GT(different, 0);
  EXPECT_LT(different, windows);
  EXPECT_LT(worst, 3);
}

}  // namespace
}  // namespace assay::data
