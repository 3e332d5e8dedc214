// The published U-Net's preprocessing and augmentation, to the digit of its examples, and a whole
// augmented batch against an independent implementation (tests/fixtures/micrographs).
#include "sdk/data/augment/micrograph_transform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "sdk/data/augment/bilinear.h"
#include "sdk/data/example.h"
#include "sdk/data/example.pb.h"
#include "sdk/data/streams.h"
#include "tests/data/support.h"
#include "tests/harness/fixture.h"

namespace assay::data {
namespace {

using test::error_of;
using testing::HasSubstr;

TEST(Bilinear, LegacyResizeReadsAtTheCorners) {
  std::vector<AxisSample> axis;
  legacy_resize_axis(512, 388, 0, 388, axis);
  ASSERT_EQ(axis.size(), 388u);
  const auto at = [&](size_t o) {
    return static_cast<double>(axis[o].low) + static_cast<double>(axis[o].weight);
  };
  EXPECT_EQ(at(0), 0);
  EXPECT_NEAR(at(1), 1.3195876, 1e-6);
  EXPECT_NEAR(at(194), 256.0, 5e-5);  // f32 coordinates
  EXPECT_NEAR(at(387), 510.680412, 5e-5);
  for (const AxisSample& sample : axis) EXPECT_EQ(sample.high, std::min(sample.low + 1, 511));
  std::vector<AxisSample> part;
  legacy_resize_axis(512, 388, 100, 3, part);
  ASSERT_EQ(part.size(), 3u);
  EXPECT_EQ(part[2].low, axis[102].low);
  EXPECT_EQ(part[2].weight, axis[102].weight);
}

TEST(Bilinear, CropAndResizeReadsBetweenTheEnds) {
  std::vector<AxisSample> axis;
  crop_resize_axis(572, 0.1f, 0.85f, 572, axis);
  const auto at = [&](size_t i) { return static_cast<float>(axis[i].low) + axis[i].weight; };
  EXPECT_NEAR(at(0), 57.1, 1e-4);
  EXPECT_NEAR(at(92), 126.1, 1e-4);
  EXPECT_NEAR(at(300), 282.1, 1e-4);
  EXPECT_NEAR(at(571), 485.35, 1e-4);
  crop_resize_axis(572, 0, 0.7f, 572, axis);
  EXPECT_NEAR(at(92), 64.4, 1e-4);
  EXPECT_NEAR(at(479), 335.3, 1e-4);
  crop_resize_axis(9, 0, 1, 9, axis);
  for (size_t i = 0; i < 9; ++i) EXPECT_EQ(at(i), static_cast<float>(i));
}

std::string record_of(int height, int width, const std::string& image, const std::string& mask) {
  Example example;
  set_bytes_feature(example, "image", image);
  if (!mask.empty()) set_bytes_feature(example, "mask", mask);
  set_int64_feature(example, "height", height);
  set_int64_feature(example, "width", width);
  std::string payload;
  serialize_example(example, payload);
  return payload;
}

struct Sample {
  std::vector<float> image, target;
};
Sample make_sample(const MicrographTransformConfig& config, const std::string& record,
                   PhiloxStream random = {0, 0}) {
  const Transform transform = make_micrograph_transform(config);
  const auto maker = transform.make_worker();
  std::string prepared;
  maker->prepare(record, prepared);
  Sample out{std::vector<float>(static_cast<size_t>(transform.arrays[0].dims.numel()), NAN),
             std::vector<float>(static_cast<size_t>(transform.arrays[1].dims.numel()), NAN)};
  std::byte* arrays[] = {reinterpret_cast<std::byte*>(out.image.data()),
                         reinterpret_cast<std::byte*>(out.target.data())};
  maker->finish(prepared, random, arrays);
  return out;
}

TEST(MicrographTransform, EvaluationHasAGreyFrameAndNoChance) {
  std::string image(512 * 512, '\xff'), mask(512 * 512, '\xff');
  image[0] = mask[0] = 0;
  const Sample got = make_sample({}, record_of(512, 512, image, mask));
  ASSERT_EQ(got.image.size(), 572u * 572);
  ASSERT_EQ(got.target.size(), 388u * 388 * 2);
  const auto pixel = [&](int y, int x) {
    return got.image[static_cast<size_t>(int64_t{y} * 572 + x)];
  };
  EXPECT_EQ(pixel(91, 300), 0);  // the frame, mid-grey
  EXPECT_EQ(pixel(300, 480), 0);
  EXPECT_EQ(pixel(92, 92), -1);   // black
  EXPECT_EQ(pixel(479, 479), 1);  // white
  EXPECT_EQ(got.target[0], 1);    // black is class 0, membrane
  EXPECT_EQ(got.target[1], 0);
  EXPECT_EQ(got.target[2], 0);
  EXPECT_EQ(got.target[3], 1);
  for (size_t i = 0; i < got.target.size(); i += 2) ASSERT_EQ(got.target[i] + got.target[i + 1], 1);
}

// Each class has its own threshold: where both weigh a half, the pixel belongs to both.
TEST(MicrographTransform, HalvesBelongToBothClasses) {
  const uint8_t classes[] = {0, 1,  //
                             1, 0};
  const auto at = [&](float y, float x) {
    return target_between(classes, 2, {0, 1, y}, {0, 1, x});
  };
  using Target = std::array<float, 2>;
  EXPECT_EQ(at(0, 0), (Target{1, 0}));
  EXPECT_EQ(at(0, 1), (Target{0, 1}));
  EXPECT_EQ(at(0, 0.5f), (Target{1, 1}));
  EXPECT_EQ(at(0.5f, 0.25f), (Target{1, 1}));
  EXPECT_EQ(at(0, std::nextafter(0.5f, 0.0f)), (Target{1, 0}));
  EXPECT_EQ(at(0, std::nextafter(0.5f, 1.0f)), (Target{0, 1}));
}

TEST(MicrographTransform, AugmentedBatchAgreesWithAnIndependentOne) {
  const test::Fixture fixture("micrographs/micrographs");
  MicrographTransformConfig config;
  config.size = 24, config.padded = 40;
  config.flip_horizontal = 0.5f, config.flip_vertical = 0.5f;
  config.max_cut = 0.3f, config.max_brightness = 0.2f;
  config.clip.push_back(-1), config.clip.push_back(1);
  const auto& images = fixture.at("record.image");
  const size_t pixels = 37 * 41;
  const auto plane = [&](const char* name, int32_t i) {
    const auto begin = fixture.at(name).i32.begin() + static_cast<int64_t>(pixels) * i;
    return std::string(begin, begin + static_cast<int64_t>(pixels));
  };
  ASSERT_EQ(images.dims, (Dims{3, 37, 41}));
  const auto& draws = fixture.at("draw").i32;
  int differing = 0;
  for (size_t row = 0; row < 4; ++row) {
    const int32_t sample = draws[2 * row], pass = draws[2 * row + 1];
    const Sample got = make_sample(
        config, record_of(37, 41, plane("record.image", sample), plane("record.mask", sample)),
        PhiloxStream(5, kAugmentStream, static_cast<uint64_t>(sample),
                     static_cast<uint32_t>(pass)));
    const float* image = fixture.at("image").f32.data() + row * got.image.size();
    for (size_t i = 0; i < got.image.size(); ++i) ASSERT_NEAR(got.image[i], image[i], 2e-6) << i;
    const float* target = fixture.at("target").f32.data() + row * got.target.size();
    for (size_t i = 0; i < got.target.size(); ++i) differing += got.target[i] != target[i];
  }
  EXPECT_EQ(differing, 0);
}

// The network is trained on grey pixels of class 0 at the border. A side of the frame is in sight
// where 3.6 v >= 0.5 + 13.95 u for the two cuts 0.45 u and 0.45 v of its axis: in 9.6 % of draws,
// and one of four sides in 34.5 %.
TEST(MicrographTransform, TheFrameMayMoveIntoTheScoredArea) {
  MicrographTransformConfig config;
  config.size = 24, config.padded = 40, config.max_cut = 0.45f;
  const std::string record =
      record_of(24, 24, std::string(24 * 24, '\xff'), std::string(24 * 24, '\xff'));
  constexpr int kSamples = 400;
  int in_sight = 0;
  for (uint64_t sample = 0; sample < kSamples; ++sample) {
    const Sample got = make_sample(config, record, PhiloxStream(1, 2, sample));
    bool black = false;
    for (size_t i = 0; i < got.target.size(); i += 2) black = black || got.target[i] == 1;
    in_sight += black;
  }
  EXPECT_NEAR(in_sight / static_cast<double>(kSamples), 0.345, 0.07);  // three standard errors
}

TEST(MicrographTransform, ImagesWithoutMaskHaveATargetOfZeros) {
  MicrographTransformConfig config;
  config.size = 4, config.padded = 8;
  const Sample got = make_sample(config, record_of(5, 5, std::string(25, 'x'), ""));
  EXPECT_THAT(got.target, testing::Each(0.0f));
}

TEST(MicrographTransform, RefusesBadRecordsAndConfigurations) {
  const auto refusal = [](const MicrographTransformConfig& config, const std::string& record) {
    return error_of([&] { make_sample(config, record); });
  };
  const std::string four(4, '\0');
  EXPECT_THAT(refusal({}, record_of(2, 2, "abc", four)).message(), HasSubstr("holds 3 bytes"));
  EXPECT_THAT(refusal({}, record_of(2, 2, four, "abc")).message(), HasSubstr("\"mask\" holds 3"));
  EXPECT_THAT(refusal({}, record_of(2, 2, four, "abcd")).message(), HasSubstr("0 and 255"));
  EXPECT_THAT(refusal({}, record_of(0, 2, "", "")).message(), HasSubstr("0 x 2"));
  const auto with = [&](auto&& set) {
    MicrographTransformConfig config;
    set(config);
    return refusal(config, record_of(2, 2, four, four)).message();
  };
  EXPECT_THAT(with([](auto& c) { c.size = 600; }), HasSubstr("size is 600"));
  EXPECT_THAT(with([](auto& c) { c.size = 387; }),
              HasSubstr("padded is 572, expected an even number more"));
  EXPECT_THAT(with([](auto& c) { c.flip_vertical = 2; }), HasSubstr("flip_vertical"));
  EXPECT_THAT(with([](auto& c) { c.max_cut = 0.5f; }), HasSubstr("max_cut"));
  EXPECT_THAT(with([](auto& c) { c.clip.push_back(1); }), HasSubstr("clip"));
}

}  // namespace
}  // namespace assay::data
