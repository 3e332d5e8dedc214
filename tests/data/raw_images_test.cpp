// Transforms that leave the last steps to the trainer: what they give, finished as a backend does
// it, is what they give without "raw", to the bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sdk/base/file.h"
#include "sdk/base/proto_json.h"
#include "sdk/data/augment/image_transform.h"
#include "sdk/data/augment/jpeg_transform.h"
#include "sdk/data/example.h"
#include "sdk/data/example.pb.h"
#include "tests/data/support.h"
#include "tests/harness/run_node.h"

namespace assay::data {
namespace {

using test::error_of;
using testing::HasSubstr;

struct RawSample {
  std::vector<std::vector<std::byte>> arrays;

  RawSample(const Transform& transform, const std::string& record, uint64_t sample) {
    const auto maker = transform.make_worker();
    std::string prepared;
    maker->prepare(record, prepared);
    std::vector<std::byte*> rows;
    for (const ArraySpec& array : transform.arrays) {
      arrays.emplace_back(array.sample_bytes());
      rows.push_back(arrays.back().data());
    }
    PhiloxStream random(1, 2, sample);
    maker->finish(prepared, random, rows);
  }
};

test::Tensor tensor_of(const std::vector<std::byte>& bytes, const ValueType& type) {
  return test::decode(bytes, type);
}

// `op` as the trainer's raw_images has it.
void expect_same(const Transform& raw, const Transform& finished, const std::string& record,
                 ImageFromBytes op) {
  ASSERT_EQ(raw.arrays.size(), 3u);
  EXPECT_EQ(raw.arrays[0].dtype, DType::kU8);
  EXPECT_EQ(raw.arrays[0].dims, finished.arrays[0].dims);
  EXPECT_EQ(raw.arrays[2].name, "placement");
  const Dims& dims = raw.arrays[0].dims;
  op.channels = dims[2];
  bool moved = false;
  for (uint64_t sample = 0; sample < 20; ++sample) {
    const RawSample left(raw, record, sample), expected(finished, record, sample);
    const test::Tensor pixels =
        tensor_of(left.arrays[0], {DType::kU8, {1, dims[0], dims[1], dims[2]}});
    const test::Tensor placement = tensor_of(left.arrays[2], {DType::kI32, {1, 4}});
    moved = moved || placement.values[3] != 0;
    const test::RunResult got = test::run_node(op, {pixels, placement}, {DType::kU8, DType::kI32});
    EXPECT_TRUE(got.outputs[0] == expected.arrays[0]) << sample;
    EXPECT_EQ(left.arrays[1], expected.arrays[1]);
  }
  EXPECT_TRUE(moved);
}

Transform jpeg(const std::string& json) {
  JpegTransformConfig config;
  parse_json(json, config, "test");
  return make_jpeg_transform(10, config);
}

Transform pixels(const std::string& json, int channels = 1) {
  ImageTransformConfig config;
  parse_json(json, config, "test");
  return make_image_transform({{5, 7, channels}, 10}, config);
}

std::string record_of_pixels(int channels) {
  Example example;
  std::string values(static_cast<size_t>(35 * channels), '\0');
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<char>(7 * i);
  set_bytes_feature(example, "image", values);
  set_int64_feature(example, "height", 5);
  set_int64_feature(example, "width", 7);
  set_int64_feature(example, "channels", channels);
  set_int64_feature(example, "label", 3);
  std::string record;
  serialize_example(example, record);
  return record;
}

TEST(RawImages, OfJpegFiles) {
  Example example;
  set_bytes_feature(example, "jpeg",
                    read_file(ASSAY_SOURCE_DIR "/tests/fixtures/images/colour_420.jpg"));
  set_int64_feature(example, "label", 3);
  std::string record;
  serialize_example(example, record);
  expect_same(jpeg(R"({"crop": "random", "size": 24, "flip_horizontal": 0.5, "raw": true})"),
              jpeg(R"({"crop": "random", "size": 24, "flip_horizontal": 0.5, "scale": 1,
                       "mean": [123.68, 116.779, 103.939], "stddev": [58.393, 57.12, 57.375]})"),
              record,
              {.scale = 1,
               .mean = {123.68f, 116.779f, 103.939f, 0},
               .stddev = {58.393f, 57.12f, 57.375f, 1}});
}

constexpr std::string_view kDrawn =
    R"({"crop_padding": 2, "flip_horizontal": 0.5, "flip_vertical": 0.5, )";

TEST(RawImages, OfGreyPixels) {
  expect_same(pixels(cat(kDrawn, R"("raw": true})")),
              pixels(cat(kDrawn, R"("mean": [0.3], "stddev": [0.35]})")), record_of_pixels(1),
              {.mean = {0.3f, 0, 0, 0}, .stddev = {0.35f, 1, 1, 1}});
}

// The mean and deviation of CIFAR-10.
TEST(RawImages, OfColourPixels) {
  expect_same(pixels(cat(kDrawn, R"("raw": true})"), 3),
              pixels(cat(kDrawn, R"("mean": [0.4914, 0.4822, 0.4465],
                                    "stddev": [0.2470, 0.2435, 0.2616]})"),
                     3),
              record_of_pixels(3),
              {.mean = {0.4914f, 0.4822f, 0.4465f, 0}, .stddev = {0.2470f, 0.2435f, 0.2616f, 1}});
}

TEST(RawImages, RefuseWhatTheTrainerDoesOrCannot) {
  EXPECT_THAT(error_of([] { jpeg(R"({"raw": true, "mean": [1]})"); }).what(),
              HasSubstr("raw_images"));
  EXPECT_THAT(error_of([] { jpeg(R"({"raw": true, "channels": 4})"); }).what(),
              HasSubstr("raw_images"));
  EXPECT_THAT(error_of([] { pixels(R"({"raw": true, "rotation_degrees": 5})"); }).what(),
              HasSubstr("no rotation"));
  EXPECT_THAT(error_of([] { pixels(R"({"raw": true, "scale": 1})"); }).what(),
              HasSubstr("raw_images"));
}

}  // namespace
}  // namespace assay::data
