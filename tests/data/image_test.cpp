#include "sdk/data/augment/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

#include "sdk/data/augment/image_transform.h"
#include "sdk/data/example.h"
#include "sdk/data/example.pb.h"
#include "tests/data/run_transform.h"
#include "tests/data/support.h"

namespace assay::data {
namespace {

using test::error_of;
using test::run;
using test::Sample;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;

using Pixels = std::vector<uint8_t>;

TEST(Image, Flips) {
  Pixels x = {1, 2, 3, 4, 5, 6};
  flip_horizontal(x.data(), {2, 3, 1});
  EXPECT_THAT(x, ElementsAre(3, 2, 1, 6, 5, 4));
  flip_vertical(x.data(), {2, 3, 1});
  EXPECT_THAT(x, ElementsAre(6, 5, 4, 3, 2, 1));
  flip_vertical(x.data(), {3, 2, 1});  // the middle row stays
  EXPECT_THAT(x, ElementsAre(2, 1, 4, 3, 6, 5));
}

TEST(Image, FlipKeepsChannelsTogether) {
  std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
  flip_horizontal(x.data(), {1, 4, 2});
  EXPECT_THAT(x, ElementsAre(7, 8, 5, 6, 3, 4, 1, 2));
}

Pixels translated(const Pixels& x, const ImageShape& shape, int dy, int dx) {
  Pixels y(x.size(), 77);
  translate<uint8_t>(x.data(), shape, dy, dx, 9, y.data());
  return y;
}

TEST(Image, Translate) {
  const Pixels x = {1, 2, 3, 4, 5, 6};
  const ImageShape shape{2, 3, 1};
  EXPECT_THAT(translated(x, shape, 0, 0), ElementsAreArray(x));
  EXPECT_THAT(translated(x, shape, 1, 0), ElementsAre(4, 5, 6, 9, 9, 9));
  EXPECT_THAT(translated(x, shape, -1, 1), ElementsAre(9, 9, 9, 2, 3, 9));
  EXPECT_THAT(translated(x, shape, 0, -2), ElementsAre(9, 9, 1, 9, 9, 4));
  EXPECT_THAT(translated(x, shape, 0, 3), ElementsAre(9, 9, 9, 9, 9, 9));
  EXPECT_THAT(translated(x, shape, 0, -5), ElementsAre(9, 9, 9, 9, 9, 9));
  EXPECT_THAT(translated(x, shape, 7, 0), ElementsAre(9, 9, 9, 9, 9, 9));
  EXPECT_THAT(translated({1, 2, 3, 4}, {1, 2, 2}, 0, 1), ElementsAre(3, 4, 9, 9));
}

TEST(Image, RandomCropTakesEveryOffsetEquallyOften) {
  const Pixels x = {0, 0, 0, 0, 1, 0, 0, 0, 0};  // where the 1 goes shows the offset
  std::vector<int> counts(9);
  PhiloxStream random(1, 2);
  for (int draw = 0; draw < 9000; ++draw) {
    Pixels y(9);
    random_crop_padded<uint8_t>(x.data(), {3, 3, 1}, 1, 0, random, y.data());
    for (size_t i = 0; i < 9; ++i) counts[i] += y[i];
  }
  for (const int count : counts) EXPECT_NEAR(count, 1000, 140);  // 4.7 standard deviations
}

TEST(Image, RotateByRightAngles) {
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::vector<float> y(9);
  const auto near = [](const std::vector<float>& expected) {
    return testing::Pointwise(testing::FloatNear(1e-5f), expected);
  };
  rotate(x.data(), {3, 3, 1}, 90.0f, 0.0f, y.data());
  EXPECT_THAT(y, near({3, 6, 9, 2, 5, 8, 1, 4, 7}));
  rotate(x.data(), {3, 3, 1}, 180.0f, 0.0f, y.data());
  EXPECT_THAT(y, near({9, 8, 7, 6, 5, 4, 3, 2, 1}));
  rotate(x.data(), {3, 3, 1}, 0.0f, 0.0f, y.data());
  EXPECT_EQ(y, x);
}

// 45 degrees: the corner at distance sqrt(2) from the centre moves onto an axis, and the pixel at
// distance 1 reads a point at (1 - 1/sqrt 2, ...) from its neighbours.
TEST(Image, RotateIsBilinear) {
  const std::vector<float> x = {0, 0, 0, 0, 1, 0, 0, 0, 0};
  std::vector<float> y(9);
  rotate(x.data(), {3, 3, 1}, 45.0f, 0.0f, y.data());
  const float r = std::sqrt(0.5f);
  EXPECT_FLOAT_EQ(y[4], 1);
  EXPECT_NEAR(y[1], (1 - r) * (1 - r), 1e-6);
  EXPECT_NEAR(y[3], (1 - r) * (1 - r), 1e-6);
  EXPECT_NEAR(y[0], 0, 1e-6);
}

TEST(Image, RotateRoundsBytes) {
  const Pixels x = {100, 201};
  Pixels y(2);
  rotate<uint8_t>(x.data(), {1, 2, 1}, 180.0f, 0, y.data());
  EXPECT_THAT(y, ElementsAre(201, 100));
}

TEST(Image, FillRectangle) {
  Pixels x(12, 1);
  fill_rectangle<uint8_t>(x.data(), {3, 4, 1}, {1, 2, 2, 1}, 5);
  EXPECT_THAT(x, ElementsAre(1, 1, 1, 1, 1, 1, 5, 1, 1, 1, 5, 1));
}

TEST(Image, RandomRectanglesKeepTheirRanges) {
  const ImageShape shape{32, 24, 3};
  const ErasingRange range{0.1f, 0.3f, 0.5f, 2.0f};
  PhiloxStream random(1, 1);
  double area = 0;
  int found = 0;
  for (int draw = 0; draw < 2000; ++draw) {
    const Rectangle r = random_rectangle(shape, range, random);
    if (r.height == 0) continue;
    ++found;
    ASSERT_GE(r.top, 0);
    ASSERT_GE(r.left, 0);
    ASSERT_LE(r.top + r.height, 32);
    ASSERT_LE(r.left + r.width, 24);
    area += r.height * r.width / 768.0;
  }
  EXPECT_EQ(found, 2000);
  EXPECT_NEAR(area / found, 0.2, 0.01);
  const ErasingRange impossible{1.0f, 1.0f, 3.0f, 3.0f};
  EXPECT_EQ(random_rectangle(shape, impossible, random).height, 0);
}

std::string image_record(const Pixels& pixels, int height, int width, int channels, int64_t label) {
  Example example;
  set_bytes_feature(example, "image",
                    {reinterpret_cast<const char*>(pixels.data()), pixels.size()});
  set_int64_feature(example, "height", height);
  set_int64_feature(example, "width", width);
  set_int64_feature(example, "channels", channels);
  set_int64_feature(example, "label", label);
  std::string payload;
  serialize_example(example, payload);
  return payload;
}

TEST(ImageTransform, NormalisesPerChannel) {
  ImageTransformConfig config;
  config.scale = 0.5f;
  for (const float mean : {1.0f, 2.0f}) config.mean.push_back(mean);
  for (const float stddev : {1.0f, 4.0f}) config.stddev.push_back(stddev);
  const Transform transform = make_image_transform({{1, 2, 2}, 3}, config);
  EXPECT_EQ(transform.arrays[0].dims, (Dims{1, 2, 2}));
  const Sample sample = run(transform, image_record({2, 4, 10, 20}, 1, 2, 2, 2));
  EXPECT_THAT(sample.image, ElementsAre(0, 0, 4, 2));
  EXPECT_EQ(sample.label, 2);
}

TEST(ImageTransform, DefaultIsUnitRange) {
  const Transform transform = make_image_transform({{1, 3, 1}, 3}, {});
  const Sample sample = run(transform, image_record({0, 51, 255}, 1, 3, 1, 0));
  EXPECT_THAT(sample.image, ElementsAre(0, testing::FloatEq(0.2f), 1));
}

TEST(ImageTransform, RandomStepsFollowTheSampleStream) {
  ImageTransformConfig config;
  config.crop_padding = 1;
  config.flip_horizontal = 0.5f;
  config.flip_vertical = 0.5f;
  config.rotation_degrees = 10;
  config.erasing_probability = 0.5f;
  const Transform transform = make_image_transform({{4, 4, 1}, 1}, config);
  Pixels pixels;
  for (uint8_t i = 0; i < 16; ++i) pixels.push_back(static_cast<uint8_t>(10 * i + 5));
  const std::string record = image_record(pixels, 4, 4, 1, 0);
  std::set<std::vector<float>> seen;
  for (uint64_t sample = 0; sample < 50; ++sample) {
    const Sample first = run(transform, record, sample);
    EXPECT_EQ(first.image, run(transform, record, sample).image);
    seen.insert(first.image);
  }
  EXPECT_GT(seen.size(), 45u);
}

TEST(ImageTransform, FlipWithCertainty) {
  ImageTransformConfig config;
  config.scale = 1;
  config.flip_horizontal = 1;
  const Transform transform = make_image_transform({{1, 3, 1}, 1}, config);
  EXPECT_THAT(run(transform, image_record({1, 2, 3}, 1, 3, 1, 0)).image, ElementsAre(3, 2, 1));
}

TEST(ImageTransform, RefusesOtherRecords) {
  const Transform transform = make_image_transform({{1, 2, 1}, 3}, {});
  const auto message = [&](const std::string& record) {
    const Error error = error_of([&] { run(transform, record); });
    EXPECT_EQ(error.code(), Code::kFormat);
    return error.message();
  };
  EXPECT_THAT(message(image_record({1, 2}, 1, 2, 1, 3)), HasSubstr("label 3 is out of range"));
  EXPECT_THAT(message(image_record({1, 2}, 1, 2, 1, -1)), HasSubstr("label -1 is out of range"));
  EXPECT_THAT(message(image_record({1, 2}, 2, 1, 1, 0)), HasSubstr("\"height\" is 2, expected 1"));
  EXPECT_THAT(message(image_record({1}, 1, 2, 1, 0)), HasSubstr("holds 1 bytes, expected 2"));
  EXPECT_THAT(message(""), HasSubstr("is missing"));
}

TEST(ImageTransform, RefusesSenselessConfiguration) {
  const auto message = [](auto&& change) {
    ImageTransformConfig config;
    change(config);
    const Error error = error_of([&] { make_image_transform({{4, 4, 2}, 1}, config); });
    EXPECT_EQ(error.code(), Code::kInvalid);
    return error.message();
  };
  EXPECT_THAT(message([](auto& c) { c.flip_horizontal = 1.5f; }), HasSubstr("flip_horizontal"));
  EXPECT_THAT(message([](auto& c) { c.flip_vertical = NAN; }), HasSubstr("flip_vertical"));
  EXPECT_THAT(message([](auto& c) { c.crop_padding = -1; }), HasSubstr("crop_padding"));
  EXPECT_THAT(message([](auto& c) { c.rotation_degrees = 200; }), HasSubstr("rotation"));
  EXPECT_THAT(message([](auto& c) { c.stddev.push_back(0); }), HasSubstr("stddev"));
  EXPECT_THAT(message([](auto& c) {
                for (int i = 0; i < 3; ++i) c.mean.push_back(0);
              }),
              HasSubstr("mean"));
  EXPECT_THAT(message([](auto& c) { c.erasing_min_area = 0.5f; }), HasSubstr("erasing_min_area"));
  EXPECT_THAT(message([](auto& c) { c.erasing_min_aspect = 0; }), HasSubstr("erasing_min_aspect"));
}

}  // namespace
}  // namespace assay::data
