// COCO's scores against pycocotools' (tests/fixtures/detection_scores), to the last bit.
#include "sdk/data/detection/detection_score.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "sdk/base/sha256.h"
#include "sdk/data/detection/results.h"
#include "tests/data/coco_files.h"
#include "tests/data/detection_files.h"
#include "tests/data/support.h"

namespace assay::data {
namespace {

using test::error_of;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

using Named = std::map<std::string, double>;

Named by_name(const AverageScores& scores) {
  return {{"ap", scores.ap},
          {"ap50", scores.ap50},
          {"ap75", scores.ap75},
          {"ap_small", scores.ap_small},
          {"ap_medium", scores.ap_medium},
          {"ap_large", scores.ap_large},
          {"ar1", scores.ar1},
          {"ar10", scores.ar10},
          {"ar100", scores.ar100},
          {"ar_small", scores.ar_small},
          {"ar_medium", scores.ar_medium},
          {"ar_large", scores.ar_large}};
}

// Of the numbers of all categories, as make_scores.py has them.
template <class Numbers>
std::string digest(const DetectionScores& scores, Numbers CategoryScores::*numbers) {
  Sha256 sum;
  for (const CategoryScores& category : scores.categories)
    sum.update(&(category.*numbers), sizeof(Numbers));
  return sum.hex();
}

std::map<std::string, std::string> digests(const DetectionScores& scores) {
  return {{"sha256 of precision", digest(scores, &CategoryScores::precision)},
          {"sha256 of recall", digest(scores, &CategoryScores::recall)},
          {"sha256 of recall of 1", digest(scores, &CategoryScores::recall_of_1)},
          {"sha256 of recall of 10", digest(scores, &CategoryScores::recall_of_10)}};
}

void expect_equals_pycocotools(const DetectionScores& scores, const std::string& name) {
  Named numbers = by_name(scores.all);
  for (const CategoryScores& category : scores.categories)
    numbers[cat("ap of category ", category.category.id)] = average_scores({&category, 1}).ap;
  const auto sums = digests(scores);
  const auto expected = test::expected_scores(name);
  EXPECT_EQ(expected.size(), numbers.size() + sums.size());
  for (const auto& [key, value] : expected) {
    if (key.starts_with("sha256")) {
      EXPECT_EQ(sums.at(key), value) << key;
    } else {
      EXPECT_EQ(numbers.at(key), std::stod(value)) << key;
    }
  }
}

class Pycocotools : public testing::TestWithParam<std::string> {};

TEST_P(Pycocotools, SaysTheSameToTheLastBit) {
  const std::string& name = GetParam();
  const auto truth = parse_coco_instances(test::detection_file(name + ".instances.json"), "truth");
  const auto found =
      parse_detection_results(test::detection_file(name + ".results.json"), "results");
  expect_equals_pycocotools(score_detections(truth, found), name);
}

INSTANTIATE_TEST_SUITE_P(MadeUp, Pycocotools,
                         testing::Values("worked", "sparse", "dense", "crowds", "nothing_found"),
                         [](const auto& test) { return test.param; });

TEST(DetectionScore, OfRealAnnotationsIsPycocotools) {
  if (!test::has_coco()) GTEST_SKIP() << test::sample_data() << " is not there";
  const std::string name = "val2017_of_coco_tiny";
  const auto truth = parse_coco_instances(test::coco_annotations("val"), "truth");
  const auto found =
      parse_detection_results(test::detection_file(name + ".results.json"), "results");
  expect_equals_pycocotools(score_detections(truth, found), name);
}

// Two images with an object each, 10 x 10 pixels.
CocoInstances two_objects() {
  return {.categories = {{1, "cat"}, {2, "dog"}},
          .images = {{8, "8.jpg", 480, 640}, {5, "5.jpg", 480, 640}},
          .objects = {{0, 8, 1, 0, 0, 10, 10, 100, false}, {1, 5, 1, 0, 0, 10, 10, 100, false}},
          .begins = {0, 1, 2}};
}
constexpr Detection kRightIn5{5, 1, 0, 0, 10, 10, 0.5};
constexpr Detection kRightIn8{8, 1, 0, 0, 10, 10, 0.5};
constexpr Detection kWrongIn8{8, 1, 50, 50, 10, 10, 0.5};

double ap(const std::vector<Detection>& detections) {
  return score_detections(two_objects(), detections).all.ap;
}

// The annotation of id 0 is found as any other; pycocotools takes its match for none.
TEST(DetectionScore, EverythingFoundIsOneAndNothingIsZero) {
  const DetectionScores scores = score_detections(two_objects(), {{kRightIn5, kRightIn8}});
  EXPECT_NEAR(scores.all.ap, 1, 1e-15);
  EXPECT_EQ(scores.all.ar1, 1);
  EXPECT_EQ(scores.all.ap_large, -1);
  EXPECT_EQ(scores.categories[0].objects, (std::array<int64_t, 4>{2, 2, 0, 0}));
  EXPECT_EQ(scores.categories[0].detections, 2);
  EXPECT_EQ(average_scores({&scores.categories[1], 1}).ap, -1) << "no dogs, so none to find";
  EXPECT_EQ(ap({}), 0);
}

TEST(DetectionScore, EqualScoresComeAsGivenAndByImage) {
  EXPECT_GT(ap({kRightIn8, kWrongIn8}), ap({kWrongIn8, kRightIn8}));
  EXPECT_EQ(ap({kWrongIn8, kRightIn5}), ap({kRightIn5, kWrongIn8})) << "5 comes before 8";
  EXPECT_EQ(ap({kRightIn5, kWrongIn8}), ap({kRightIn8, kWrongIn8}));
}

TEST(DetectionScore, CurvesFallFromRecallToRecall) {
  const auto truth = parse_coco_instances(test::detection_file("dense.instances.json"), "truth");
  const auto found = parse_detection_results(test::detection_file("dense.results.json"), "results");
  const DetectionScores scores = score_detections(truth, found);
  int64_t falls = 0;
  for (const CategoryScores& category : scores.categories) {
    for (const auto& curve : category.precision[0]) {
      EXPECT_TRUE(std::ranges::is_sorted(curve, std::greater<>()));
      falls += curve.front() > curve.back();
    }
  }
  EXPECT_GT(falls, 10);
  EXPECT_EQ(overlap_threshold(0), 0.5);
  EXPECT_EQ(overlap_threshold(5), 0.75);
  EXPECT_EQ(overlap_threshold(9), 0.95);
  EXPECT_EQ(recall_point(0), 0);
  EXPECT_EQ(recall_point(100), 1);
}

TEST(DetectionScore, ForeignCategoriesAreCountedAndLeftOut) {
  Detection foreign = kWrongIn8;
  foreign.category_id = 0;
  foreign.score = 9;
  const DetectionScores scores = score_detections(two_objects(), {{foreign, kRightIn5, kRightIn8}});
  EXPECT_EQ(scores.foreign, 1);
  EXPECT_NEAR(scores.all.ap, 1, 1e-15);
}

TEST(DetectionScore, WhatCannotBeScoredIsRefused) {
  const auto refused = [](Detection detection) {
    const Error error = error_of([&] { score_detections(two_objects(), {{detection}}); });
    EXPECT_EQ(error.code(), Code::kInvalid);
    return error.message();
  };
  Detection elsewhere = kRightIn5;
  elsewhere.image_id = 7;
  EXPECT_THAT(refused(elsewhere), HasSubstr("image 7"));
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  for (double Detection::*number :
       {&Detection::x, &Detection::y, &Detection::width, &Detection::height, &Detection::score}) {
    for (const double bad : {kNaN, HUGE_VAL, -HUGE_VAL}) {
      Detection detection = kRightIn5;
      detection.*number = bad;
      EXPECT_THAT(refused(detection), AllOf(HasSubstr("image 5"), HasSubstr("finite")));
    }
  }
}

}  // namespace
}  // namespace assay::data
