// assay-predict's boxes: from a detector's sample to pixels of the picture, told and drawn; and how
// a picture becomes such a sample.
#include "tools/common/boxes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <opencv2/core.hpp>

#include "tools/common/error.h"
#include "tools/predict/prepare.h"

namespace assay::tools {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const DetectorOutput kOutput{{10, 20, 30, 60, -5, -5, 500, 500, 0, 0, 1, 1, 0, 0, 0, 0},
                             {0.9f, 0.5f, 0.2f, 0},
                             {1, 0, 1, -1}};
std::string number_of(size_t of_class) { return "c" + std::to_string(of_class); }

TEST(FoundBoxes, AreInPixelsOfThePictureAndWithinIt) {
  const auto boxes = found_boxes(kOutput, 0.3f, 2, {100, 80});
  ASSERT_THAT(boxes, SizeIs(2));
  EXPECT_EQ(box_line(boxes, number_of), "\tc1\t0.9000\t40,20,60,40\tc0\t0.5000\t0,0,100,80");
  EXPECT_THAT(found_boxes(kOutput, 0, 1, {9, 9}), SizeIs(3)) << "a class below 0 ends the list";
  EXPECT_THAT(found_boxes(kOutput, 1, 1, {9, 9}), IsEmpty());
}

TEST(FoundBoxes, AreDrawnInBlueGreenAndRed) {
  for (const int channels : {1, 3, 4}) {
    cv::Mat picture(80, 100, CV_8UC(channels), cv::Scalar(50, 60, 70, 255));
    const cv::Mat plain = drawn(picture, {}, number_of);
    ASSERT_EQ(plain.type(), CV_8UC3);
    const cv::Vec3b expected = channels == 1 ? cv::Vec3b(50, 50, 50) : cv::Vec3b(70, 60, 50);
    EXPECT_EQ(plain.at<cv::Vec3b>(40, 50), expected);
    const cv::Mat with = drawn(picture, found_boxes(kOutput, 0.6f, 2, {100, 80}), number_of);
    EXPECT_EQ(with.at<cv::Vec3b>(40, 60), expected) << "boxes are not filled";
    for (const cv::Point& corner : {cv::Point(40, 59), cv::Point(99, 40), cv::Point(60, 60)})
      EXPECT_NE(with.at<cv::Vec3b>(corner), expected) << corner;
    EXPECT_EQ(picture.at<uchar>(40, 0), 50) << "the picture stays as it is";
  }
  EXPECT_NO_THROW(
      drawn(cv::Mat(1, 1, CV_8UC1, cv::Scalar(0)), found_boxes(kOutput, 0, 1, {1, 1}), number_of));
}

TEST(KnownObjects, AreFoundByABoxOfTheirClassThatOverlapsThemByHalf) {
  std::vector<KnownObject> objects{{0, 0, 10, 10, 1}, {4, 0, 14, 10, 1}, {50, 50, 60, 60, 2}};
  mark_found({{0, 0, 10, 10, 0.9f, 2}, {50, 50, 60, 54, 0.8f, 2}}, objects);
  for (const KnownObject& object : objects) EXPECT_FALSE(object.found);
  // The surer box takes the object that it overlaps most, a second one of the same place the other.
  mark_found({{1, 0, 11, 10, 0.9f, 1}, {1, 0, 11, 10, 0.8f, 1}, {50, 50, 60, 55, 0.3f, 2}},
             objects);
  for (const KnownObject& object : objects) EXPECT_TRUE(object.found);
}

TEST(KnownObjects, AreDrawnInWhiteAndNamedWhereTheyWereMissed) {
  const cv::Mat plain(300, 300, CV_8UC3, cv::Scalar(9, 9, 9));
  const auto white_pixels = [&](bool found) {
    cv::Mat picture = plain.clone(), white;
    draw_objects(picture, {{100, 100, 200, 200, 1, found}}, number_of);
    EXPECT_EQ(picture.at<cv::Vec3b>(150, 100), cv::Vec3b(255, 255, 255));
    cv::inRange(picture, cv::Scalar::all(255), cv::Scalar::all(255), white);
    return cv::countNonZero(white);
  };
  EXPECT_EQ(white_pixels(true), 4 * 100);
  EXPECT_GT(white_pixels(false), 2 * 4 * 100);
}

// 2 x 4 pixels fit into 4 x 4 as they are, twice as large they would not.
TEST(DetectorSample, LiesAtTheUpperLeftOfZeros) {
  cv::Mat picture(2, 4, CV_8UC1);
  for (int i = 0; i < 8; ++i) picture.data[i] = static_cast<uint8_t>(10 * (i + 1));
  Preparation preparation;
  preparation.scale = 1;
  preparation.mean = {1, 2, 3};
  const auto sample = prepare_for_detector({"p", picture}, preparation, {4, 4, 3});
  ASSERT_THAT(sample, SizeIs(48));
  EXPECT_EQ(sample[0], 9);
  EXPECT_EQ(sample[2], 7);
  EXPECT_EQ(sample[4 * 3 + 3 + 1], 58);  // row 1, column 1, green
  EXPECT_THAT(std::vector(sample.begin() + 24, sample.end()), Each(0));
  EXPECT_EQ(detector_scale({4, 2}, {4, 4, 3}), 1);
  EXPECT_EQ(detector_scale({640, 480}, {512, 512, 3}), 1.25f);
}

// Source = place times the ratio of the sizes, from the corner on.
TEST(DetectorSample, IsResizedAsTensorFlowDid) {
  cv::Mat picture(1, 4, CV_8UC1);
  for (int i = 0; i < 4; ++i) picture.data[i] = static_cast<uint8_t>(40 * i);
  Preparation preparation;
  preparation.scale = 1;
  const auto larger = prepare_for_detector({"p", picture}, preparation, {8, 8, 1});
  EXPECT_THAT(std::vector(larger.begin(), larger.begin() + 8),
              testing::ElementsAre(0, 20, 40, 60, 80, 100, 120, 120));
  const auto smaller = prepare_for_detector({"p", picture}, preparation, {2, 2, 1});
  EXPECT_THAT(smaller, testing::ElementsAre(0, 80, 0, 0));
}

TEST(DetectorSample, SizeStandsInThePreparation) {
  EXPECT_EQ(parse_preparation(R"({"size": [128, 256], "origin": true})").detector_size,
            (std::vector<int>{128, 256}));
  EXPECT_THAT(parse_preparation(R"({"size": 128})").detector_size, IsEmpty());
  EXPECT_THROW(parse_preparation(R"({"size": [128, 128], "scale_jitter": [0.1, 2]})"), Error);
}

}  // namespace
}  // namespace assay::tools
