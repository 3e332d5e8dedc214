#include "sdk/data/augment/jpeg_transform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include "sdk/base/file.h"
#include "sdk/base/proto_json.h"
#include "sdk/base/sha256.h"
#include "sdk/data/augment/crop.h"
#include "sdk/data/example.h"
#include "sdk/data/example.pb.h"
#include "sdk/data/jpeg.h"
#include "tests/data/run_transform.h"
#include "tests/data/support.h"

namespace assay::data {
namespace {

using test::error_of;
using test::run;
using test::Sample;
using testing::HasSubstr;

const std::string kImages = ASSAY_SOURCE_DIR "/tests/fixtures/images/";

std::string record_of(const std::string& jpeg, int64_t label) {
  Example example;
  set_bytes_feature(example, "jpeg", jpeg);
  set_int64_feature(example, "label", label);
  std::string payload;
  serialize_example(example, payload);
  return payload;
}

Transform transform_of(const std::string& json, int64_t classes = 10) {
  JpegTransformConfig config;
  parse_json(json, config, "test");
  return make_jpeg_transform(classes, config);
}

std::string to_bytes(const std::vector<float>& image) {
  std::string bytes;
  for (const float value : image) bytes += static_cast<char>(static_cast<uint8_t>(value));
  return bytes;
}

// Every row of expected.tsv, which Pillow computed.
TEST(JpegTransform, MatchesPillowToTheBit) {
  const Transform stretch = transform_of(R"({"crop": "stretch", "size": 32, "scale": 1})");
  const Transform centre = transform_of(R"({"size": 32, "resize_shorter": 40, "scale": 1})");
  std::ifstream table(kImages + "expected.tsv");
  int compared = 0;
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string file, operation, width, height, sha256;
    fields >> file >> operation >> width >> height >> sha256;
    if (operation != "stretch" && operation != "centre") continue;
    const std::string record = record_of(read_file(kImages + file), 3);
    const Sample sample = run(operation == "stretch" ? stretch : centre, record);
    EXPECT_EQ(sha256_hex(to_bytes(sample.image)), sha256) << file << " " << operation;
    EXPECT_EQ(sample.label, 3);
    ++compared;
  }
  EXPECT_EQ(compared, 22);
}

TEST(JpegTransform, NormalisesEachChannelAndPads) {
  const std::string file = read_file(kImages + "colour_420.jpg");
  const Sample bytes =
      run(transform_of(R"({"size": 8, "resize_shorter": 8, "scale": 1})"), record_of(file, 0));
  const Transform transform = transform_of(
      R"({"size": 8, "resize_shorter": 8, "scale": 1, "mean": [123.68, 116.779, 103.939],
          "stddev": [58.393, 57.12, 57.375], "channels": 4})");
  EXPECT_EQ(transform.arrays[0].dims, (Dims{8, 8, 4}));
  const Sample sample = run(transform, record_of(file, 0));
  const float mean[] = {123.68f, 116.779f, 103.939f}, stddev[] = {58.393f, 57.12f, 57.375f};
  for (size_t pixel = 0; pixel < 64; ++pixel) {
    for (size_t c = 0; c < 3; ++c) {
      EXPECT_FLOAT_EQ(sample.image[4 * pixel + c],
                      (bytes.image[3 * pixel + c] - mean[c]) / stddev[c]);
    }
    EXPECT_EQ(sample.image[4 * pixel + 3], 0);
  }
}

TEST(JpegTransform, DefaultsAreTheEvaluationOfTheLiterature) {
  const Transform transform = transform_of("");
  EXPECT_EQ(transform.arrays[0].dims, (Dims{224, 224, 3}));
  EXPECT_EQ(transform.arrays[1].pad, -1);
  const std::string record = record_of(read_file(kImages + "colour_444.jpg"), 9);
  const Sample implicit = run(transform, record, 1);
  const Sample written =
      run(transform_of(R"({"crop": "centre", "size": 224, "resize_shorter": 256})"), record, 2);
  EXPECT_EQ(implicit.image, written.image);
}

TEST(JpegTransform, FlipWithCertaintyMirrors) {
  const std::string record = record_of(read_file(kImages + "colour_420.jpg"), 0);
  const Sample plain = run(transform_of(R"({"crop": "stretch", "size": 6})"), record);
  const Sample flipped =
      run(transform_of(R"({"crop": "stretch", "size": 6, "flip_horizontal": 1})"), record);
  for (size_t y = 0; y < 6; ++y) {
    for (size_t x = 0; x < 6; ++x) {
      for (size_t c = 0; c < 3; ++c) {
        EXPECT_EQ(flipped.image[(6 * y + x) * 3 + c], plain.image[(6 * y + 5 - x) * 3 + c]);
      }
    }
  }
}

TEST(JpegTransform, RandomWindowsFollowTheSampleStream) {
  const Transform transform =
      transform_of(R"({"crop": "random", "size": 16, "flip_horizontal": 0.5})");
  const std::string record = record_of(read_file(kImages + "progressive_420.jpg"), 0);
  std::set<std::vector<float>> seen;
  for (uint64_t sample = 0; sample < 50; ++sample) {
    const Sample first = run(transform, record, sample);
    EXPECT_EQ(first.image, run(transform, record, sample).image);
    seen.insert(first.image);
  }
  EXPECT_EQ(seen.size(), 50u);
}

// A sharp large picture: reduced decoding may differ by what another filter makes of its edges.
TEST(JpegTransform, ReducedDecodingStaysClose) {
  constexpr int kHeight = 700, kWidth = 900;
  std::string pixels;
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      const bool inside = std::hypot(x - 450, y - 350) < 250 || (x / 60 + y / 60) % 2 == 0;
      for (int c = 0; c < 3; ++c) pixels += static_cast<char>(inside ? 200 - 40 * c : 30 + 50 * c);
    }
  }
  const std::string record = record_of(
      encode_jpeg(reinterpret_cast<const uint8_t*>(pixels.data()), kHeight, kWidth, 95), 0);
  const auto at = [&](const char* reduced, uint64_t sample) {
    return run(
        transform_of(cat(
            R"({"crop": "random", "size": 32, "scale": 1, "min_area": 0.5, "reduced_decoding": )",
            reduced, "}")),
        record, sample);
  };
  for (uint64_t sample = 0; sample < 5; ++sample) {
    const Sample exact = at("false", sample), fast = at("true", sample);
    double mean = 0, worst = 0;
    for (size_t i = 0; i < exact.image.size(); ++i) {
      const double difference = std::abs(exact.image[i] - fast.image[i]);
      mean += difference / static_cast<double>(exact.image.size());
      worst = std::max(worst, difference);
    }
    EXPECT_GT(mean, 0);  // it is another path
    EXPECT_LT(mean, 2);
    EXPECT_LT(worst, 24);
  }
}

TEST(JpegTransform, EveryShapeOfImage) {
  const Transform centre = transform_of(""), random = transform_of(R"({"crop": "random"})");
  for (const char* name : {"one_pixel.jpg", "wide.jpg", "tall.jpg", "cmyk.jpg", "grey.jpg"}) {
    const std::string record = record_of(read_file(kImages + name), 0);
    for (uint64_t sample = 0; sample < 20; ++sample) {
      for (const Transform* transform : {&centre, &random}) {
        for (const float value : run(*transform, record, sample).image) {
          ASSERT_TRUE(value >= 0 && value <= 1) << name;
        }
      }
    }
  }
}

TEST(JpegTransform, BadRecordsAreRefused) {
  const Transform transform = transform_of("");
  const std::string file = read_file(kImages + "colour_420.jpg");
  const auto message = [&](const std::string& record) {
    const Error error = error_of([&] { run(transform, record); });
    EXPECT_EQ(error.code(), Code::kFormat);
    return error.message();
  };
  EXPECT_THAT(message(record_of(file, 10)), HasSubstr("label 10 is out of range, expected 0 to 9"));
  EXPECT_THAT(message(record_of(file, -1)), HasSubstr("label -1"));
  EXPECT_THAT(message(record_of("GIF89a", 0)), HasSubstr("no JPEG"));
  EXPECT_THAT(message(record_of(file.substr(0, file.size() / 2), 0)),
              HasSubstr("cannot be decoded"));
  EXPECT_THAT(message("junk"), HasSubstr("tf.train.Example"));
}

TEST(JpegTransform, BadConfigurationsNameTheKey) {
  for (const auto& [json, key] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"({"crop": "middle"})", "crop is \"middle\""},
           {R"({"size": -1})", "size is -1"},
           {R"({"size": 0})", "size is 0"},
           {R"({"crop": ""})", "crop is not given"},
           {R"({"channels": 0})", "channels is 0"},
           {R"({"size": 5000})", "size is 5000"},
           {R"({"size": 257})", "resize_shorter is 256, expected 257"},
           {R"({"crop": "random", "resize_shorter": 256})",
            "resize_shorter belongs to centre, not to random"},
           {R"({"min_area": 0.1})", "min_area belongs to random, not to centre"},
           {R"({"crop": "random", "min_area": 0})", "min_area is 0"},
           {R"({"crop": "random", "max_area": 1.5})", "max_area is 1.5"},
           {R"({"crop": "random", "min_aspect": 2})", "min_aspect is 2"},
           {R"({"flip_horizontal": 1.5})", "flip_horizontal is 1.5"},
           {R"({"channels": 1})", "channels is 1"},
           {R"({"mean": [1, 2]})", "mean is a list of 2"},
           {R"({"stddev": [1, 0, 1]})", "stddev is 0"},
           {R"({"crop_padding": 1})", "crop_padding"}}) {
    const Error error = error_of([text = json] { transform_of(text); });
    EXPECT_EQ(error.code(), Code::kInvalid) << json;
    EXPECT_THAT(error.message(), HasSubstr(key)) << json;
    EXPECT_FALSE(error.detail().argument.empty()) << json;
  }
}

class Crop : public testing::Test {
 protected:
  PhiloxStream random_{5, 6};
};

TEST_F(Crop, AreaIsUniformAndAspectLogUniform) {
  constexpr int kDraws = 20000, kHeight = 3000, kWidth = 3000;
  double area = 0, area_squares = 0, log_aspect = 0, log_squares = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    const Rectangle r =
        random_resized_crop(kHeight, kWidth, {0.08f, 0.5f, 0.75f, 4 / 3.0f}, random_);
    ASSERT_TRUE(r.top >= 0 && r.left >= 0 && r.top + r.height <= kHeight &&
                r.left + r.width <= kWidth);
    const double share = static_cast<double>(r.height) * r.width / (double{kHeight} * kWidth);
    const double log_ratio = std::log(static_cast<double>(r.width) / r.height);
    area += share, area_squares += share * share;
    log_aspect += log_ratio, log_squares += log_ratio * log_ratio;
  }
  // Moments of the uniform distributions; bounds of about five standard errors.
  const double range = 0.42, log_range = std::log(16 / 9.0);
  EXPECT_NEAR(area / kDraws, 0.29, 0.005);
  EXPECT_NEAR(area_squares / kDraws - std::pow(area / kDraws, 2), range * range / 12, 0.0005);
  EXPECT_NEAR(log_aspect / kDraws, 0, 0.006);
  EXPECT_NEAR(log_squares / kDraws, log_range * log_range / 12, 0.001);
}

TEST_F(Crop, ExtremeShapesTakeTheLargestAllowedWindow) {
  for (int draw = 0; draw < 50; ++draw) {
    const Rectangle wide = random_resized_crop(30, 3000, {}, random_);
    EXPECT_EQ(wide.height, 30);
    EXPECT_EQ(wide.width, 40);
    const Rectangle tall = random_resized_crop(3000, 30, {}, random_);
    EXPECT_EQ(tall.height, 40);
    EXPECT_EQ(tall.width, 30);
    const Rectangle one = random_resized_crop(1, 1, {}, random_);
    EXPECT_EQ(one.height * one.width, 1);
  }
}

// 2 x 3 pixels: no rounded window of 70 to 75 % of the area has an aspect of 0.99 to 1.01.
TEST_F(Crop, TenFailuresTakeTheLargestAllowedWindow) {
  const Rectangle r = random_resized_crop(2, 3, {0.9f, 1, 0.99f, 1.01f}, random_);
  EXPECT_EQ(r.height, 2);
  EXPECT_EQ(r.width, 2);
}

TEST_F(Crop, RoundedAspectStaysInRange) {
  for (int draw = 0; draw < 5000; ++draw) {
    const Rectangle r = random_resized_crop(23, 31, {}, random_);
    const float aspect = static_cast<float>(r.width) / static_cast<float>(r.height);
    ASSERT_TRUE(aspect >= 0.75f && aspect <= 4 / 3.0f) << r.width << " x " << r.height;
  }
}

TEST(ResizeShorter, KeepsTheAspect) {
  const auto expect = [](int height, int width, int to_height, int to_width) {
    const ImageSize size = resize_shorter(height, width, 256);
    EXPECT_EQ(size.height, to_height);
    EXPECT_EQ(size.width, to_width);
  };
  expect(375, 500, 256, 341);  // 341.33
  expect(500, 375, 341, 256);
  expect(256, 256, 256, 256);
  expect(512, 1001, 256, 501);  // 500.5
  expect(1, 65500, 256, 16768000);
  EXPECT_EQ(centre_offset(256, 224), 16);
  EXPECT_EQ(centre_offset(341, 224), 59);  // 58.5
  EXPECT_EQ(centre_offset(224, 224), 0);
}

}  // namespace
}  // namespace assay::data
