// Photographs with boxes as samples: bit for bit those of an independent implementation
// (tests/fixtures/detection), the published examples, and records that others wrote.
#include "sdk/data/augment/detection_transform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <sstream>

#include "sdk/base/file.h"
#include "sdk/base/sha256.h"
#include "sdk/data/detection_records.h"
#include "sdk/data/example.pb.h"
#include "sdk/data/jpeg.h"
#include "sdk/data/streams.h"
#include "tests/data/support.h"

namespace assay::data {
namespace {

using test::error_of;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kCategories = 90;

std::string fixture(const std::string& name) {
  return read_file(ASSAY_SOURCE_DIR "/tests/fixtures/" + name);
}

struct Sample {
  std::vector<float> image, boxes;
  std::vector<int32_t> classes;
  int32_t count = -7;
  int64_t source_id = -7;
  float scale = -7;

  std::vector<float> box(size_t i) const {
    return {boxes.begin() + static_cast<ptrdiff_t>(4 * i),
            boxes.begin() + static_cast<ptrdiff_t>(4 * i + 4)};
  }
};

// Filled with junk first: a sample says every number.
Sample make_sample(const DetectionTransformConfig& config, const std::string& record,
                   PhiloxStream random = {0, 0}) {
  const Transform transform = make_detection_transform(kCategories, config);
  const auto maker = transform.make_worker();
  std::string prepared;
  maker->prepare(record, prepared);
  Sample out;
  out.image.assign(static_cast<size_t>(transform.arrays[0].dims.numel()), NAN);
  out.boxes.assign(4 * kMostBoxes, NAN);
  out.classes.assign(kMostBoxes, -7);
  std::byte* arrays[] = {reinterpret_cast<std::byte*>(out.image.data()),
                         reinterpret_cast<std::byte*>(out.boxes.data()),
                         reinterpret_cast<std::byte*>(out.classes.data()),
                         reinterpret_cast<std::byte*>(&out.count),
                         reinterpret_cast<std::byte*>(&out.source_id),
                         reinterpret_cast<std::byte*>(&out.scale)};
  maker->finish(prepared, random, std::span(arrays, transform.arrays.size()));
  return out;
}

DetectionTransformConfig published(int rows, int columns, bool trains) {
  DetectionTransformConfig config;
  config.size = {rows, columns};
  config.mean = {0.485f, 0.456f, 0.406f}, config.stddev = {0.229f, 0.224f, 0.225f};
  if (trains) config.scale_jitter = {0.1f, 2.0f}, config.flip_horizontal = 0.5f;
  config.origin = true;
  return config;
}

std::string record_of(const std::string& jpeg, const std::vector<DetectionObject>& objects,
                      int64_t source_id = 1) {
  DetectionRecord record;
  record.source_id = source_id;
  record.jpeg = jpeg;
  record.objects = objects;
  std::string payload;
  write_detection(record, payload);
  return payload;
}

// As make_detection.py has them.
const std::vector<DetectionObject> kObjects{
    {0.125f, 0.25f, 0.75f, 0.5f, 1},
    {0, 0, 1, 1, 90},
    {0.3f, 0.3f, 0.6f, 0.9f, 3, true},
    {0.1f, 0.7f, 0.9f, 0.7f, 17},
    {0.6180339887f, 0.8090169944f, 0.9f, 1, 44},
};

std::string digest_of(const std::vector<float>& image) {
  return sha256_hex({reinterpret_cast<const char*>(image.data()), image.size() * sizeof(float)});
}

std::string text_of(const Sample& sample) {
  std::ostringstream text;
  text.precision(17);
  for (int32_t i = 0; i < sample.count; ++i) {
    text << (i == 0 ? "" : ";") << sample.classes[static_cast<size_t>(i)];
    for (size_t k = 0; k < 4; ++k)
      text << (k == 0 ? ':' : ',') << double{sample.boxes[4 * static_cast<size_t>(i) + k]};
  }
  return text.str();
}

// "0:1.5,2.0;..." with as many digits as the writer liked, in the digits of text_of.
std::string normal_form(const std::string& boxes) {
  std::istringstream in(boxes);
  std::ostringstream out;
  out.precision(17);
  for (double number = 0; in >> number;) {
    out << number;
    if (char separator = 0; in >> separator) out << separator;
  }
  return out.str();
}

TEST(DetectionTransform, SamplesAreThoseOfAnIndependentImplementation) {
  std::istringstream lines(fixture("detection/samples.tsv"));
  std::string line;
  std::getline(lines, line);  // the heading
  int samples = 0;
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    std::string file, digest, boxes;
    int rows = 0, columns = 0, trains = 0;
    uint64_t sample = 0;
    uint32_t pass = 0;
    float scale = 0;
    fields >> file >> rows >> columns >> trains >> sample >> pass >> digest >> scale >> boxes;
    ASSERT_FALSE(digest.empty()) << line;
    const Sample got = make_sample(published(rows, columns, trains != 0),
                                   record_of(fixture("images/" + file + ".jpg"), kObjects, 77),
                                   PhiloxStream(11, kAugmentStream, sample, pass));
    EXPECT_EQ(digest_of(got.image), digest) << line;
    EXPECT_EQ(text_of(got), normal_form(boxes)) << line;
    EXPECT_EQ(got.scale, scale);
    EXPECT_EQ(got.source_id, 77);
    for (size_t i = static_cast<size_t>(got.count); i < kMostBoxes; ++i) {
      EXPECT_EQ(got.classes[i], -1);
      EXPECT_THAT(got.box(i), ElementsAre(0, 0, 0, 0));
    }
    ++samples;
  }
  EXPECT_EQ(samples, 98);
}

// Pixels of an image in a sample whose pixels are all above 0: rows and columns.
std::pair<int, int> seen(const Sample& sample, int columns) {
  int height = 0, width = 0;
  for (size_t i = 0; i < sample.image.size(); i += 3) {
    if (sample.image[i] == 0) continue;
    height = std::max(height, static_cast<int>(i / 3) / columns + 1);
    width = std::max(width, static_cast<int>(i / 3) % columns + 1);
  }
  return {height, width};
}

std::string grey_jpeg(int height, int width) {
  const std::vector<uint8_t> pixels(static_cast<size_t>(3 * height * width), 100);
  return encode_jpeg(pixels.data(), height, width, 90);
}

// Images are fit to a share of 512 x 512 with their aspect kept, cut off to whole pixels.
TEST(DetectionTransform, PublishedExamplesOfScales) {
  const struct {
    float factor, scale;
    int height, width;  // of 480 x 640
  } cases[] = {{0.1f, 0.0796875f, 38, 51},
               {1.3f, 1.0390625f, 498, 512},  // 498 x 665 before it is cut
               {2.0f, 1.6f, 512, 512}};       // 768 x 1024
  const std::string record = record_of(grey_jpeg(480, 640), {{0.5f, 0.25f, 1, 1, 1}});
  for (const auto& c : cases) {
    DetectionTransformConfig config;
    config.scale_jitter = {c.factor, c.factor};
    config.origin = true;
    const Sample got = make_sample(config, record);
    EXPECT_EQ(seen(got, 512), std::pair(c.height, c.width)) << c.factor;
    EXPECT_EQ(got.scale, 1 / c.scale);
  }
  DetectionTransformConfig config;  // evaluation
  config.origin = true;
  const Sample got = make_sample(config, record);
  EXPECT_EQ(seen(got, 512), std::pair(384, 512));
  EXPECT_EQ(got.scale, 1 / 0.8f);
  EXPECT_THAT(got.box(0), ElementsAre(192, 128, 384, 511));  // not 512
}

// Where a window begins is drawn for rows and columns apart; boxes outside of it are dropped.
TEST(DetectionTransform, WindowsMoveOverTheImage) {
  DetectionTransformConfig config;
  config.size = {128, 128};
  config.scale_jitter = {2, 2};
  const std::string record =
      record_of(grey_jpeg(64, 64), {{0, 0, 0.125f, 0.125f, 1}, {0.5f, 0.5f, 0.75f, 0.75f, 2}});
  std::vector<float> tops, lefts;
  int whole_corner = 0, cut_off = 0;
  for (uint64_t i = 0; i < 200; ++i) {
    const Sample got = make_sample(config, record, PhiloxStream(3, 4, i));
    EXPECT_EQ(seen(got, 128), std::pair(128, 128));
    if (got.count == 0 || got.classes[static_cast<size_t>(got.count - 1)] != 1) {
      ++cut_off;  // the second box begins behind the last pixel
      continue;
    }
    const std::vector<float> box = got.box(static_cast<size_t>(got.count - 1));
    EXPECT_EQ(box[2], std::min(box[0] + 64, 127.0f));
    EXPECT_EQ(box[3], std::min(box[1] + 64, 127.0f));
    tops.push_back(128 - box[0]), lefts.push_back(128 - box[1]);
    whole_corner += got.count == 2;
  }
  EXPECT_LT(cut_off, 12);  // 2 of 128 windows
  EXPECT_LT(*std::ranges::min_element(tops), 5);
  EXPECT_GT(*std::ranges::max_element(tops), 122);
  EXPECT_LT(*std::ranges::min_element(lefts), 5);
  EXPECT_GT(*std::ranges::max_element(lefts), 122);
  EXPECT_NE(tops, lefts);
  EXPECT_NEAR(whole_corner / 200.0, 1 / 16.0, 0.06);  // top and left below 32 of 128
}

TEST(DetectionTransform, ImagesTooThinForTheirSizeKeepAPixel) {
  DetectionTransformConfig config;
  config.size = {128, 128};
  config.scale_jitter = {0.1f, 0.1f};
  const Sample got = make_sample(config, record_of(grey_jpeg(1, 300), {{0, 0, 1, 0.5f, 1}}));
  EXPECT_EQ(seen(got, 128), std::pair(1, 12));
  EXPECT_EQ(got.count, 1);
  EXPECT_THAT(got.box(0), ElementsAre(0, 0, 1, 6));
}

TEST(DetectionTransform, CrowdsAreNoBoxesAndImagesNeedNone) {
  const std::string jpeg = fixture("images/one_pixel.jpg");
  EXPECT_EQ(make_sample({}, record_of(jpeg, {})).count, 0);
  EXPECT_EQ(make_sample({}, record_of(jpeg, {{0, 0, 1, 1, 1, true}})).count, 0);
  std::vector<DetectionObject> many(kMostBoxes, {0, 0, 1, 1, 1});
  many.push_back({0, 0, 1, 1, 1, true});
  EXPECT_EQ(make_sample({}, record_of(jpeg, many)).count, kMostBoxes);
  many.back().crowd = false;
  const Error error = error_of([&] { make_sample({}, record_of(jpeg, many)); });
  EXPECT_EQ(error.code(), Code::kFormat);
  EXPECT_THAT(error.message(), HasSubstr("the image has 100 boxes, expected at most 99"));
}

TEST(DetectionTransform, ReadsRecordsOfOtherConverters) {
  DetectionTransformConfig config;
  config.size = {128, 128};
  config.origin = true;
  const Sample nvidia = make_sample(config, fixture("detection/nvidia.example"));
  EXPECT_EQ(nvidia.source_id, 42);
  EXPECT_EQ(nvidia.count, 1);  // the other is a crowd
  EXPECT_EQ(nvidia.classes[0], 0);
  EXPECT_THAT(nvidia.box(0), ElementsAre(64, 0, 127, 127));
  const Sample google = make_sample(config, fixture("detection/google.example"));
  EXPECT_EQ(google.source_id, -1);  // no number
  EXPECT_EQ(google.count, 1);
  EXPECT_EQ(google.classes[0], 1);
  EXPECT_THAT(google.box(0), ElementsAre(0, 16, 127, 127));
  for (const char* name : {"detection/no_lists.example", "detection/empty_lists.example"}) {
    const Sample none = make_sample(config, fixture(name));
    EXPECT_EQ(none.source_id, 42);
    EXPECT_EQ(none.count, 0);
    EXPECT_EQ(none.image, nvidia.image);
  }
}

// What is written has every feature that the others' readers know.
TEST(DetectionRecords, HaveTheFeaturesOfTheOthers) {
  Example ours, theirs;
  parse_example(record_of(fixture("images/one_pixel.jpg"), kObjects), ours);
  parse_example(fixture("detection/nvidia.example"), theirs);
  for (const auto& entry : theirs.features().feature()) {
    const std::string& name = entry.key();
    if (name == "image/caption") continue;
    ASSERT_TRUE(has_feature(ours, name)) << name;
    const record::Feature &our = *find_feature(ours, name), &their = entry.value();
    EXPECT_EQ(our.has_bytes_list(), their.has_bytes_list()) << name;
    EXPECT_EQ(our.has_float_list(), their.has_float_list()) << name;
    EXPECT_EQ(our.has_int64_list(), their.has_int64_list()) << name;
  }
  EXPECT_EQ(bytes_feature(ours, "image/key/sha256"), bytes_feature(theirs, "image/key/sha256"));
  EXPECT_EQ(bytes_feature(ours, "image/source_id"), "1");
  EXPECT_THAT(int64s_feature(ours, "image/object/is_crowd"), ElementsAre(0, 0, 1, 0, 0));
}

TEST(DetectionRecords, RefusesWhatIsNoBox) {
  const auto problem_of = [](const std::function<void(Example&)>& change) {
    Example example;
    parse_example(fixture("detection/nvidia.example"), example);
    change(example);
    std::string payload;
    serialize_example(example, payload);
    const Error error = error_of([&] { make_sample({}, payload); });
    EXPECT_EQ(error.code(), Code::kFormat);
    return error.message();
  };
  const auto set = [](const char* name, const std::vector<float>& values) {
    return [=](Example& example) { set_floats_feature(example, name, values); };
  };
  EXPECT_THAT(problem_of(set("image/object/bbox/xmin", {0})), HasSubstr("expected equally many"));
  EXPECT_THAT(problem_of(set("image/object/bbox/xmin", {0.5f, NAN})),
              HasSubstr("a box from row 0"));
  EXPECT_THAT(problem_of(set("image/object/bbox/ymax", {0.4f, 1})),
              HasSubstr("a box from row 0.5 to 0.4"));
  EXPECT_THAT(problem_of(set("image/encoded", {1})), HasSubstr("holds float, expected bytes"));
  for (const int64_t label : {int64_t{0}, int64_t{-1}, int64_t{91}, int64_t{1} << 40}) {
    EXPECT_THAT(problem_of([=](Example& example) {
                  const int64_t labels[] = {1, label};
                  set_int64s_feature(example, "image/object/class/label", labels);
                }),
                HasSubstr(cat("holds ", label, ", expected 1 to 90")));
  }
  EXPECT_THAT(problem_of([](Example& e) { set_bytes_feature(e, "image/encoded", "PNG"); }),
              HasSubstr("JPEG"));
  EXPECT_EQ(error_of([] { make_sample({}, "junk"); }).code(), Code::kFormat);
}

TEST(DetectionTransform, RefusesSenselessConfigurations) {
  const auto problem_of = [](const std::string& json) {
    const Error error = error_of([&] {
      DetectionTransformConfig config;
      parse_json(json, config, "detection transform");
      make_detection_transform(kCategories, config);
    });
    EXPECT_EQ(error.code(), Code::kInvalid) << json;
    return error.message();
  };
  EXPECT_THAT(problem_of(R"({"size": [512]})"), HasSubstr("size is a list of 1, expected [rows,"));
  EXPECT_THAT(problem_of(R"({"size": [512, 0]})"), HasSubstr("size"));
  EXPECT_THAT(problem_of(R"({"scale_jitter": [2, 1]})"), HasSubstr("scale_jitter"));
  EXPECT_THAT(problem_of(R"({"scale_jitter": [1]})"), HasSubstr("[least, largest]"));
  EXPECT_THAT(problem_of(R"({"scale_jitter": [0, 1]})"), HasSubstr("scale_jitter"));
  EXPECT_THAT(problem_of(R"({"flip_horizontal": 1.5})"), HasSubstr("flip_horizontal"));
  EXPECT_THAT(problem_of(R"({"stddev": [1, 0, 1]})"), HasSubstr("stddev"));
  EXPECT_THAT(problem_of(R"({"mean": [1, 2]})"), HasSubstr("mean"));
  EXPECT_THAT(problem_of(R"({"crop": "random"})"), HasSubstr("crop"));
}

}  // namespace
}  // namespace assay::data
