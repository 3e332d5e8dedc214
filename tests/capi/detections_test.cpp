// What a detector finds, from the predictor's outputs to COCO's file of results and its scores.
#include <array>
#include <atomic>
#include <fstream>
#include <functional>
#include <limits>
#include <sstream>
#include <thread>

#include "tests/capi/support.h"
#include "tests/data/detection_files.h"

namespace assay::test {
namespace {

using google::protobuf::Struct;
using testing::AllOf;
using testing::HasSubstr;

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Owned<assay_detections> no_detections() { return make<assay_detections>(assay_detections_create); }

struct Size {
  int64_t images = 0, detections = 0;
  bool operator==(const Size&) const = default;
};
Size size_of(const assay_detections* detections) {
  Size size;
  ok(assay_detections_size, detections, &size.images, &size.detections);
  return size;
}

Struct score(const assay_detections* detections, const std::string& instances,
             std::string_view config = "") {
  return report(assay_detections_score, detections, text(instances), text(config));
}

// One thing found: ymin, xmin, ymax, xmax.
struct Found {
  std::array<float, 4> box;
  float score;
  int32_t category;
};

void add(assay_detections* detections, int64_t image, float scale,
         const std::vector<Found>& found) {
  std::vector<float> boxes, scores;
  std::vector<int32_t> classes;
  for (const Found& each : found) {
    boxes.insert(boxes.end(), each.box.begin(), each.box.end());
    scores.push_back(each.score);
    classes.push_back(each.category - 1);
  }
  ok(assay_detections_add, detections, image, scale, static_cast<const float*>(boxes.data()),
     static_cast<const float*>(scores.data()), static_cast<const int32_t*>(classes.data()),
     found.size());
}

class Detections : public testing::Test {
 protected:
  TemporaryFolder folder;
  std::string file(const std::string& name, const std::string& json) const {
    std::ofstream(folder.at(name)) << json;
    return folder.at(name);
  }
};

// The worked example of the fact sheet: the model saw half of each side.
TEST_F(Detections, AreForOneCallAtATime) {
  const auto detections = no_detections();
  std::atomic<int64_t> added{0};
  const auto give = [&](int64_t first) {
    const float box[] = {0, 0, 1, 1}, sure = 1;
    const int32_t category = 0;
    for (int64_t image = first; image < first + 20000; ++image) {
      const Outcome outcome = call(assay_detections_add, detections.get(), image, 1.0f, +box, &sure,
                                   &category, size_t{1});
      if (outcome.status == ASSAY_OK)
        ++added;
      else
        EXPECT_EQ(outcome.status, ASSAY_E_BUSY) << outcome.message;
    }
  };
  std::thread other(give, 20000);
  give(0);
  other.join();
  EXPECT_EQ(size_of(detections.get()), (Size{added, added}));
}

TEST_F(Detections, AreScoredInPixelsOfTheImage) {
  const auto found = no_detections();
  add(found.get(), 1, 2,
      {{{5, 5, 15, 15}, .9f, 1},
       {{5, 150, 25, 170}, .8f, 1},
       {{50, 52.5, 75, 77.5}, .7f, 1},
       {{100, 100, 150, 160}, .5f, 2},
       {{155, 5, 180, 30}, .4f, 2}});
  add(found.get(), 2, 2, {{{0, 0, 1, 1}, 1, 1}});
  add(found.get(), 2, 2,
      {{{25, 15, 55, 35}, .6f, 1}, {{0, 0, 5, 5}, .95f, 2}, {{0, 0, 5, 5}, .99f, 3}});
  EXPECT_EQ(size_of(found.get()), (Size{2, 8})) << "an image given again replaces the first";
  const std::string instances = file("instances.json", detection_file("worked.instances.json"));
  const Struct scores = score(found.get(), instances);
  const auto expected = expected_scores("worked");
  const Struct& all = at(scores, "all").struct_value();
  EXPECT_EQ(all.fields_size(), 12);
  for (const auto& [name, value] : all.fields())
    EXPECT_EQ(value.number_value(), std::stod(expected.at(name))) << name;
  for (const auto& [name, value] : {std::pair{"images", 2},
                                    {"images_found", 2},
                                    {"objects", 4},
                                    {"detections", 8},
                                    {"foreign", 0}})
    EXPECT_EQ(number(scores, name), value) << name;
  EXPECT_EQ(at(scores, "curves").list_value().values_size(), 0);
  const auto& categories = at(scores, "categories").list_value();
  ASSERT_EQ(categories.values_size(), 3);
  const Struct& second = categories.values(1).struct_value();
  EXPECT_EQ(number(second, "id"), 2);
  EXPECT_EQ(at(second, "name").string_value(), "category 2");
  EXPECT_EQ(number(second, "objects"), 1) << "the crowd is not to be found";
  EXPECT_EQ(number(second, "detections"), 3);
  EXPECT_EQ(number(at(second, "scores").struct_value(), "ap"), 0.35);
}

TEST_F(Detections, OfOthersAreRead) {
  for (const std::string name : {"sparse", "dense", "crowds", "nothing_found"}) {
    const auto found = make<assay_detections>(
        assay_detections_open, text(file("results.json", detection_file(name + ".results.json"))));
    const Struct scores =
        score(found.get(), file("instances.json", detection_file(name + ".instances.json")));
    const auto expected = expected_scores(name);
    for (const auto& [key, value] : at(scores, "all").struct_value().fields())
      EXPECT_EQ(value.number_value(), std::stod(expected.at(key))) << name << ' ' << key;
    EXPECT_EQ(number(scores, "detections"), static_cast<double>(size_of(found.get()).detections));
    EXPECT_EQ(number(scores, "foreign") > 0, name != "nothing_found");
  }
}

// As pycocotools, which looks at no more of a file.
TEST_F(Detections, IdsOfImagesAndCategoriesAreEnough) {
  const auto found = no_detections();
  add(found.get(), 5, 1, {{{0, 0, 20, 20}, 1, 1}});
  const Struct scores = score(found.get(), file("i.json", R"({"images": [{"id": 5}, {"id": 6,
      "file_name": 3, "height": 0}], "categories": [{"id": 1}], "annotations":
      [{"id": 1, "image_id": 5, "category_id": 1, "bbox": [0, 0, 20, 20]}]})"));
  EXPECT_EQ(number(scores, "images"), 2);
  EXPECT_NEAR(number(at(scores, "all").struct_value(), "ap"), 1, 1e-12);
  EXPECT_NEAR(number(at(scores, "all").struct_value(), "ap_small"), 1, 1e-12) << "of the box";
  EXPECT_EQ(number(at(scores, "all").struct_value(), "ap_large"), -1);
}

TEST_F(Detections, CurvesAverageToThePrecision) {
  const auto found = make<assay_detections>(
      assay_detections_open, text(file("results.json", detection_file("dense.results.json"))));
  const Struct scores =
      score(found.get(), file("instances.json", detection_file("dense.instances.json")),
            R"({"curves": true})");
  const auto expect_mean = [](const Struct& of, double ap) {
    const auto& curves = at(of, "curves").list_value();
    ASSERT_EQ(curves.values_size(), 10);
    double sum = 0;
    for (const auto& curve : curves.values()) {
      const auto& precision = at(curve.struct_value(), "precision").list_value();
      ASSERT_EQ(precision.values_size(), 101);
      for (const auto& value : precision.values()) sum += value.number_value();
    }
    EXPECT_NEAR(sum / 1010, ap, 1e-12);
    EXPECT_EQ(number(curves.values(5).struct_value(), "overlap"), 0.75);
  };
  expect_mean(scores, number(at(scores, "all").struct_value(), "ap"));
  int without = 0;
  for (const auto& each : at(scores, "categories").list_value().values()) {
    const Struct& category = each.struct_value();
    const double ap = number(at(category, "scores").struct_value(), "ap");
    without += ap == -1;
    if (ap == -1) {
      EXPECT_EQ(at(category, "curves").list_value().values_size(), 0);
    } else {
      expect_mean(category, ap);
    }
  }
  EXPECT_EQ(without, 1);
}

TEST_F(Detections, WhatIsNoDetectionIsRefusedAndChangesNothing) {
  const auto found = no_detections();
  add(found.get(), 5, 1, {{{0, 0, 2, 2}, 1, 1}});
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr float kHuge = std::numeric_limits<float>::max();
  const auto refused = [&](std::array<float, 8> boxes, std::array<float, 2> scores, float scale) {
    const int32_t classes[] = {0, 1};
    return call(assay_detections_add, found.get(), int64_t{5}, scale,
                static_cast<const float*>(boxes.data()), static_cast<const float*>(scores.data()),
                static_cast<const int32_t*>(classes), size_t{2});
  };
  struct Case {
    std::array<float, 8> boxes;
    std::array<float, 2> scores;
    float scale;
    const char* argument;
  };
  constexpr std::array<float, 8> kGood{0, 0, 1, 1, 0, 0, 1, 1};
  for (const Case& c : {Case{{0, 0, 1, 1, 0, kNaN, 1, 1}, {1, 1}, 1, "boxes"},
                        Case{{0, 0, 1, 1, 0, 0, kHuge, 1}, {1, 1}, 2, "boxes"},
                        Case{{0, 0, 1, 1, 3, 0, 1, 1}, {1, 1}, 1, "boxes"},
                        Case{{0, 0, 1, 1, 0, 3, 1, 1}, {1, 1}, 1, "boxes"},
                        Case{kGood, {1, kNaN}, 1, "scores"}, Case{kGood, {1, 1}, 0, "scale"},
                        Case{kGood, {1, 1}, -1, "scale"}, Case{kGood, {1, 1}, kNaN, "scale"}}) {
    const Outcome outcome = refused(c.boxes, c.scores, c.scale);
    EXPECT_EQ(outcome.status, ASSAY_E_INVALID);
    EXPECT_EQ(outcome.argument, c.argument) << outcome.message;
  }
  EXPECT_THAT(refused({0, 0, 1, 1, 3, 0, 1, 1}, {1, 1}, 1).message,
              AllOf(HasSubstr("ymin, xmin, ymax, xmax"), HasSubstr("box 1")));
  EXPECT_EQ(size_of(found.get()), (Size{1, 1}));
  fails(ASSAY_E_INVALID, assay_detections_add, found.get(), int64_t{5}, 1.0f, nullptr, nullptr,
        nullptr, size_t{1});
  ok(assay_detections_add, found.get(), int64_t{5}, 1.0f, nullptr, nullptr, nullptr, size_t{0});
  EXPECT_EQ(size_of(found.get()), (Size{1, 0}));
}

TEST_F(Detections, FilesThatAreNotWhatTheyShouldBe) {
  assay_detections* none = nullptr;
  assay_report* no_report = nullptr;
  const auto open = [&](const std::string& path, assay_status status) {
    return fails(status, assay_detections_open, text(path), &none);
  };
  open(folder.at("absent.json"), ASSAY_E_NOT_FOUND);
  open("", ASSAY_E_INVALID);
  EXPECT_THAT(open(file("r.json", "[{\"image_id\": 1,\n \"score\": 1}]"), ASSAY_E_FORMAT),
              AllOf(HasSubstr("r.json, line 1"), HasSubstr("category_id")));
  EXPECT_THAT(open(file("i.json", detection_file("worked.instances.json")), ASSAY_E_FORMAT),
              HasSubstr("one list"));
  EXPECT_EQ(none, nullptr);

  const auto found = no_detections();
  add(found.get(), 77, 1, {{{0, 0, 2, 2}, 1, 1}});
  const auto score_fails = [&](const std::string& path, assay_status status,
                               std::string_view config = "") {
    return fails(status, assay_detections_score, found.get(), text(path), text(config), &no_report);
  };
  const std::string instances = folder.at("i.json");
  EXPECT_THAT(score_fails(instances, ASSAY_E_INVALID), HasSubstr("image 77"));
  EXPECT_THAT(score_fails(instances, ASSAY_E_INVALID, R"({"curve": true})"),
              HasSubstr("did you mean \"curves\"?"));
  score_fails(folder.at("absent.json"), ASSAY_E_NOT_FOUND);
  EXPECT_THAT(score_fails(file("r.json", detection_file("worked.results.json")), ASSAY_E_FORMAT),
              HasSubstr("r.json"));
  EXPECT_THAT(score_fails(file("c.json", R"({"images": [], "categories": [],
      "annotations": [{"id": 1, "image_id": 1, "caption": "a dog"}]})"),
                          ASSAY_E_FORMAT),
              HasSubstr("captions"));
  EXPECT_EQ(no_report, nullptr);
  fails(ASSAY_E_NOT_FOUND, assay_detections_save, found.get(), text(folder.at("no/r.json")));
}

// A detector's finds in two images: what a predictor gives goes in row by row.
TEST_F(Detections, OfADetectorBecomeAFileAndScores) {
  constexpr int64_t kImages = 2, kMost = 100, kSide = 128;
  const auto context = make_context();
  const auto model =
      make<assay_model>(assay_model_named, context.get(), text("efficientdet_d0"), text(""));
  ok(assay_model_initialize, model.get(), uint64_t{3});
  const auto predictor = make<assay_predictor>(assay_predictor_create, model.get(),
                                               text(R"({"image_size": [128, 128]})"));
  const auto slot = make<assay_slot>(assay_slot_create, predictor.get());
  const int64_t shape[] = {kImages, kSide, kSide, 3};
  std::vector<float> pixels(kImages * kSide * kSide * 3);
  for (size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<float>((i * 7919 + i / 50'000) % 997) / 250.0f - 2;
  const auto image =
      make<assay_tensor>(assay_tensor_borrow, context.get(), static_cast<void*>(pixels.data()),
                         pixels.size() * sizeof(float), ASSAY_F32, shape, 4, nullptr, 0);
  const assay_tensor* const in[] = {image.get()};
  assay_tensor* out[3] = {nullptr, nullptr, nullptr};
  ok(assay_predictor_run, predictor.get(), slot.get(), in, size_t{1}, out, size_t{3});
  const Owned<assay_tensor> owned[] = {Owned<assay_tensor>(out[0]), Owned<assay_tensor>(out[1]),
                                       Owned<assay_tensor>(out[2])};
  std::vector<float> boxes(kImages * kMost * 4), scores(kImages * kMost);
  std::vector<int32_t> classes(kImages * kMost);
  ok(assay_tensor_read, out[0], static_cast<void*>(boxes.data()), boxes.size() * sizeof(float));
  ok(assay_tensor_read, out[1], static_cast<void*>(scores.data()), scores.size() * sizeof(float));
  ok(assay_tensor_read, out[2], static_cast<void*>(classes.data()),
     classes.size() * sizeof(int32_t));

  const auto found = no_detections();
  const int64_t ids[kImages] = {139, 42};
  const float scales[kImages] = {5.0f, 1.25f};
  for (size_t i = 0; i < kImages; ++i)
    ok(assay_detections_add, found.get(), ids[i], scales[i],
       static_cast<const float*>(boxes.data() + i * kMost * 4),
       static_cast<const float*>(scores.data() + i * kMost),
       static_cast<const int32_t*>(classes.data() + i * kMost), size_t{kMost});
  const auto finds = std::ranges::count_if(classes, [](int32_t c) { return c >= 0; });
  ASSERT_GT(finds, kMost) << "an untrained detector is unsure of very much";
  EXPECT_EQ(size_of(found.get()), (Size{kImages, finds}));

  const std::string results = folder.at("results.json");
  ok(assay_detections_save, found.get(), text(results));
  const auto again = make<assay_detections>(assay_detections_open, text(results));
  EXPECT_EQ(size_of(again.get()), size_of(found.get()));
  ok(assay_detections_save, again.get(), text(folder.at("again.json")));
  EXPECT_EQ(content(folder.at("again.json")), content(results));
  std::ostringstream first;  // of image 42, the lower id
  first.precision(17);
  const float* const box = boxes.data() + kMost * 4;
  const float x = box[1] * 1.25f, y = box[0] * 1.25f;
  first << "[{\"image_id\":42,\"category_id\":" << classes[kMost] + 1 << ",\"bbox\":[";
  EXPECT_THAT(content(results), testing::StartsWith(first.str()));
  EXPECT_NEAR(std::stod(content(results).substr(first.str().size())), double{x}, 1e-12);
  const std::string behind_x =
      content(results).substr(content(results).find(',', first.str().size()) + 1);
  EXPECT_NEAR(std::stod(behind_x), double{y}, 1e-12);

  // Were the best three of each image what is there, nothing would be missed.
  std::ostringstream truth;
  truth.precision(9);
  truth << R"({"images": [{"id": 139, "file_name": "a.jpg", "width": 640, "height": 640},
      {"id": 42, "file_name": "b.jpg", "width": 160, "height": 160}], "categories": [)";
  for (int c = 1; c <= 91; ++c)
    truth << (c > 1 ? "," : "") << "{\"id\":" << c << ",\"name\":\"" << c << "\"}";
  truth << R"(], "annotations": [)";
  for (size_t i = 0; i < 6; ++i) {
    const size_t row = i / 3 * kMost + i % 3;
    const float scale = scales[i / 3];
    const float* const b = boxes.data() + row * 4;
    const float left = b[1] * scale, top = b[0] * scale;
    const float width = b[3] * scale - left, height = b[2] * scale - top;
    truth << (i > 0 ? "," : "") << "{\"id\":" << i << ",\"image_id\":" << ids[i / 3]
          << ",\"category_id\":" << classes[row] + 1 << ",\"bbox\":[" << left << ',' << top << ','
          << width << ',' << height << "],\"area\":" << width * height << ",\"iscrowd\":0}";
  }
  const Struct scored = score(again.get(), file("truth.json", truth.str() + "]}"));
  EXPECT_EQ(number(at(scored, "all").struct_value(), "ar100"), 1);
  EXPECT_EQ(number(scored, "objects"), 6);
  EXPECT_EQ(number(scored, "images_found"), 2);
  EXPECT_EQ(number(scored, "foreign"), 0);
}

}  // namespace
}  // namespace assay::test
