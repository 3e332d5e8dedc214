#include "sdk/data/example.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "sdk/data/example.pb.h"
#include "sdk/data/record.h"
#include "tests/data/support.h"

namespace assay::data {
namespace {

using test::error_of;
using testing::ElementsAre;
using testing::HasSubstr;

const char kFixture[] = ASSAY_SOURCE_DIR "/tests/fixtures/records/examples.tfrecord";

TEST(Example, ReadsFileOfAnotherImplementation) {
  const RecordFile file(kFixture);
  ASSERT_EQ(file.size(), 4);
  std::string payload;
  Example example;
  for (int i = 0; i < 3; ++i) {
    file.read(i, payload);
    parse_example(payload, example);
    std::string image;
    for (int k = 0; k < 6; ++k) image += static_cast<char>(i * 50 + k);
    EXPECT_EQ(bytes_feature(example, "image"), image);
    EXPECT_EQ(int64_feature(example, "height"), 2);
    EXPECT_EQ(int64_feature(example, "label"), i);
    EXPECT_THAT(floats_feature(example, "weights"),
                ElementsAre(0.5f * static_cast<float>(i), -1.25f));
    EXPECT_THAT(int64s_feature(example, "ids"), ElementsAre(-1, i, int64_t{1} << 40));
  }
  file.read(3, payload);
  EXPECT_EQ(payload, "");
}

TEST(Example, WritesTheSameBytesAsAnotherImplementation) {
  std::string bytes, payload;
  for (int i = 0; i < 3; ++i) {
    Example example;
    const float weights[] = {0.5f * static_cast<float>(i), -1.25f};
    const int64_t ids[] = {-1, i, int64_t{1} << 40};
    std::string image;
    for (int k = 0; k < 6; ++k) image += static_cast<char>(i * 50 + k);
    set_floats_feature(example, "weights", weights);
    set_int64_feature(example, "label", i);
    set_bytes_feature(example, "image", image);
    set_int64s_feature(example, "ids", ids);
    set_int64_feature(example, "height", 2);
    serialize_example(example, payload);
    append_record(payload, bytes);
  }
  append_record("", bytes);
  EXPECT_EQ(bytes, read_file(kFixture));
}

TEST(Example, SettersReplace) {
  Example example;
  set_int64_feature(example, "x", 1);
  set_int64_feature(example, "x", 2);
  EXPECT_EQ(int64_feature(example, "x"), 2);
  set_bytes_feature(example, "x", "a");
  set_bytes_feature(example, "x", "b");
  EXPECT_EQ(bytes_feature(example, "x"), "b");
  set_floats_feature(example, "x", std::array{0.5f});
  EXPECT_THAT(floats_feature(example, "x"), testing::ElementsAre(0.5f));
  EXPECT_TRUE(has_feature(example, "x"));
  EXPECT_FALSE(has_feature(example, "y"));
}

// As a map reads them, and in the order in which a map is written.
TEST(Example, FeaturesInAnyOrder) {
  Example a, b, read;
  set_int64_feature(a, "x", 1);
  set_int64_feature(a, "c", 2);
  set_int64_feature(b, "x", 3);
  set_int64_feature(b, "a", 4);
  std::string first, second, all;
  serialize_example(a, first);
  serialize_example(b, second);
  parse_example(first + second, read);
  EXPECT_EQ(int64_feature(read, "x"), 3);
  EXPECT_EQ(int64_feature(read, "c"), 2);
  EXPECT_EQ(int64_feature(read, "a"), 4);
  serialize_example(read, all);
  set_int64_feature(b, "c", 2);
  serialize_example(b, second);
  EXPECT_EQ(all, second);
}

TEST(Example, ErrorsNameTheFeature) {
  Example example;
  set_int64_feature(example, "label", 1);
  const int64_t two[] = {1, 2};
  set_int64s_feature(example, "pair", two);
  const Error missing = error_of([&] { bytes_feature(example, "image"); });
  EXPECT_EQ(missing.code(), Code::kFormat);
  EXPECT_THAT(missing.message(), HasSubstr("\"image\" is missing"));
  EXPECT_THAT(error_of([&] { bytes_feature(example, "label"); }).message(),
              HasSubstr("\"label\" holds int64, expected bytes"));
  EXPECT_THAT(error_of([&] { int64_feature(example, "pair"); }).message(),
              HasSubstr("\"pair\" holds 2 values, expected 1"));
  EXPECT_EQ(error_of([&] { parse_example("\xff\xff", example); }).code(), Code::kFormat);
}

}  // namespace
}  // namespace assay::data
