// Detections as COCO's results: written, read back, and what is refused.
#include "sdk/data/detection/results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/data/detection_files.h"
#include "tests/data/support.h"

namespace assay::data {
namespace {

using test::error_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(DetectionResults, AreWrittenInCocosForm) {
  const std::vector<Detection> detections{{397133, 18, 0.5, -3, 100.25, 7, 0.875},
                                          {1, 2, 0, 0, 0, 0, -1e5}};
  EXPECT_EQ(detection_results(detections),
            R"([{"image_id":397133,"category_id":18,"bbox":[0.5,-3,100.25,7],"score":0.875},)"
            R"({"image_id":1,"category_id":2,"bbox":[0,0,0,0],"score":-100000}])");
  EXPECT_EQ(detection_results({}), "[]");
}

TEST(DetectionResults, ReadBackAsTheyWere) {
  constexpr double kTiny = std::numeric_limits<double>::denorm_min();
  constexpr double kFloat = 0.1f;
  const std::vector<Detection> detections{
      {std::numeric_limits<int64_t>::max(), -1, 1.0 / 3, -1e300, kTiny, 0.1, kFloat},
      {0, 90, 1e-7, 123456789.125, 3, 4, -0.0}};
  const auto read = parse_detection_results(detection_results(detections), "results");
  ASSERT_EQ(read.size(), detections.size());
  for (size_t i = 0; i < read.size(); ++i) {
    const Detection &a = read[i], &b = detections[i];
    EXPECT_EQ(a.image_id, b.image_id);
    EXPECT_EQ(a.category_id, b.category_id);
    for (double Detection::*number :
         {&Detection::x, &Detection::y, &Detection::width, &Detection::height, &Detection::score})
      EXPECT_EQ(a.*number, b.*number);
  }
  EXPECT_THAT(parse_detection_results(" [ ] ", "results"), IsEmpty());
}

TEST(DetectionResults, OtherMembersMayStandBesideThem) {
  const auto read = parse_detection_results(
      R"([{"id": 4, "score": 1e-2, "segmentation": [[1, 2], {"a": null}], "bbox": [1, 2, 3, 4],
           "category_id": 5, "image_id": 6}])",
      "results");
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].image_id, 6);
  EXPECT_EQ(read[0].category_id, 5);
  EXPECT_EQ(read[0].height, 4);
  EXPECT_EQ(read[0].score, 0.01);
}

TEST(DetectionResults, OfAnotherFormAreRefused) {
  static const struct {
    const char *json, *problem;
  } kCases[] = {
      {"", "line 1, column 1"},
      {"{}", "one list"},
      {"3", "one list"},
      {R"({"annotations": [{"bbox": 1}]})", "one list"},
      {"[1]", "a detection is of another type"},
      {"[{}]", "\"image_id\" is missing"},
      {R"([{"image_id": 1, "caption": "a dog"}])", "captions"},
      {R"([{"image_id": 1.0, "category_id": 1, "bbox": [1, 2, 3, 4], "score": 1}])",
       "whole number"},
      {R"([{"image_id": "1", "category_id": 1, "bbox": [1, 2, 3, 4], "score": 1}])",
       "\"image_id\" is of another type"},
      {R"([{"image_id": 1, "bbox": [1, 2, 3, 4], "score": 1}])", "\"category_id\" is missing"},
      {R"([{"image_id": 1, "category_id": 1, "score": 1}])", "\"bbox\" is missing"},
      {R"([{"image_id": 1, "category_id": 1, "bbox": [1, 2, 3], "score": 1}])", "3 numbers"},
      {R"([{"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4, 5], "score": 1}])", "5 numbers"},
      {R"([{"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, null], "score": 1}])",
       "a number of \"bbox\""},
      {R"([{"image_id": 1, "category_id": 1, "bbox": [9, 9, -3, 4], "score": 1}])", "negative"},
      {R"([{"image_id": 1, "category_id": 1, "bbox": [9, 9, 3, -4], "score": 1}])", "negative"},
      {R"([{"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4]}])", "\"score\" is missing"},
      {R"([{"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "score": NaN}])", "NaN"},
      {R"([{"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "score": 1e999}])", "1.8e308"},
      {R"([{"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "score": 1, "score": 1}])",
       "again"},
      {R"([{"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "score": 1},])", "comma"},
      {R"([{"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "score": 1}] 2)", "column"},
  };
  for (const auto& c : kCases) {
    const Error error = error_of([&] { parse_detection_results(c.json, "found.json"); });
    EXPECT_EQ(error.code(), Code::kFormat) << c.json;
    EXPECT_THAT(error.message(), AllOf(HasSubstr("found.json"), HasSubstr(c.problem))) << c.json;
  }
}

TEST(DetectionResults, EveryTruncationIsRefused) {
  const std::string json = test::detection_file("worked.results.json");
  const size_t end = json.rfind(']');
  for (size_t length = 0; length <= end; ++length) {
    const Error error =
        error_of([&] { parse_detection_results(json.substr(0, length), "found.json"); });
    EXPECT_EQ(error.code(), Code::kFormat) << length;
  }
}

TEST(DetectionResults, MistakesAreFoundWhereTheyStand) {
  const Error error = error_of([] {
    parse_detection_results(
        "[{\"image_id\": 1, \"category_id\": 1, \"bbox\": [1, 2, 3, 4], \"score\": 1},\n"
        " {\"image_id\": 1, \"category_id\": 1, \"bbox\": [1, 2], \"score\": 1}]",
        "found.json");
  });
  EXPECT_THAT(error.message(), HasSubstr("line 2, column 44"));
}

}  // namespace
}  // namespace assay::data
