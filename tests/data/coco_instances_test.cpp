// Files of COCO's instances: what is read of them, and what is refused with which words. Real ones
// where coco-tiny lies in ../shared/data (annotations of COCO 2017, CC BY 4.0).
#include "sdk/data/coco_instances.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sdk/base/error.h"
#include "tests/data/coco_files.h"
#include "tests/data/support.h"

namespace assay::data {
namespace {

using test::error_of;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kImages =
    R"([{"id": 7, "file_name": "b.jpg", "height": 4, "width": 6, "license": 3},
        {"file_name": "a.jpg", "width": 3, "id": 5, "height": 2}])";
constexpr const char* kCategories = R"([{"id": 1, "name": "person"}, {"id": 90, "name": "brush"}])";

std::string file_with(const std::string& annotations, const std::string& images = kImages,
                      const std::string& categories = kCategories) {
  return cat(R"({"info": {"year": 2017, "of": [1, 2]}, "annotations": [)", annotations,
             R"(], "images": )", images, R"(, "categories": )", categories, "}");
}

CocoInstances read(const std::string& json) { return parse_coco_instances(json, "it"); }

std::string problem_of(const std::string& json) {
  const Error error = error_of([&] { read(json); });
  EXPECT_EQ(error.code(), Code::kFormat) << error.message();
  EXPECT_THAT(error.message(), testing::StartsWith("it"));
  return error.message();
}

TEST(CocoInstances, AreGroupedByImage) {
  const CocoInstances file = read(file_with(R"(
      {"id": 10, "image_id": 5, "category_id": 90, "bbox": [0, 0.5, 1.25, 1e0], "area": 0.75,
       "iscrowd": 0, "segmentation": [[0, 0.5, 1, 2]]},
      {"id": 3, "image_id": 7, "category_id": 1, "bbox": [-1, 2, 0, -3], "iscrowd": 1, "area": 9,
       "segmentation": {"size": [4, 6], "counts": [3, 21]}},
      {"id": 2, "image_id": 5, "category_id": 1, "bbox": [1, 1, 2, 3],
       "segmentation": {"size": [4, 6], "counts": "a0b"}, "more": {"a": []}})"));
  ASSERT_EQ(file.images.size(), 2u);
  EXPECT_EQ(file.images[0].id, 7);
  EXPECT_EQ(file.images[0].file_name, "b.jpg");
  EXPECT_EQ(file.images[0].height, 4);
  EXPECT_EQ(file.images[0].width, 6);
  ASSERT_EQ(file.categories.size(), 2u);
  EXPECT_EQ(file.categories[1].id, 90);
  EXPECT_EQ(file.categories[1].name, "brush");
  const auto first = file.objects_of(0), second = file.objects_of(1);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].id, 3);
  EXPECT_TRUE(first[0].crowd);
  EXPECT_EQ(first[0].x, -1);
  EXPECT_EQ(first[0].height, -3);
  EXPECT_EQ(first[0].area, 9);
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(second[0].id, 10);  // in the order of the file
  EXPECT_EQ(second[0].y, 0.5);
  EXPECT_EQ(second[0].width, 1.25);
  EXPECT_EQ(second[0].area, 0.75);
  EXPECT_EQ(second[1].id, 2);
  EXPECT_FALSE(second[1].crowd);
  EXPECT_EQ(second[1].area, 6);  // of the box
}

TEST(CocoInstances, ImagesMayHaveNoObjects) {
  const CocoInstances file = read(file_with(""));
  EXPECT_TRUE(file.objects_of(0).empty());
  EXPECT_TRUE(file.objects_of(1).empty());
}

TEST(CocoInstances, RefusesOtherFiles) {
  EXPECT_THAT(problem_of("[]"), HasSubstr("instances are an object"));
  EXPECT_THAT(problem_of("{}"), HasSubstr("a member \"images\" is missing"));
  EXPECT_THAT(problem_of(R"({"images": {}})"), HasSubstr("\"images\" is of another type: an obj"));
  EXPECT_THAT(problem_of(cat(R"({"images": )", kImages, "}")),
              HasSubstr("a member \"annotations\" is missing"));
  EXPECT_THAT(problem_of(file_with("", "[]")), HasSubstr("\"images\" is empty"));
  EXPECT_THAT(problem_of(file_with(R"({"id": 1, "image_id": 7, "caption": "A bird."})")),
              AllOf(HasSubstr("line 1, column "),
                    HasSubstr("these annotations are captions, which have no boxes: take")));
  EXPECT_THAT(problem_of(file_with(R"({"image_id": 7, "segments_info": []})")),
              HasSubstr("panoptic"));
  const std::string whole =
      file_with(R"({"id": 1, "image_id": 5, "category_id": 1, "bbox": [1, 1, 2, 3], "area": 6})");
  for (size_t size = 0; size < whole.size(); ++size) problem_of(whole.substr(0, size));
  read(whole);
}

// An annotation with one thing changed.
std::string annotation(const std::string& change) {
  return cat(R"({"id": 1, "image_id": 5, "category_id": 1, "bbox": [1, 1, 2, 3])", change, "}");
}

TEST(CocoInstances, SaysWhatIsWrong) {
  const struct {
    std::string json, problem;
  } cases[] = {
      {file_with("{}"), "a member \"id\" is missing"},
      {file_with("3"), "an annotation is of another type: a number, expected an object"},
      {file_with(annotation("") + "," + annotation("")), "the id 1 was given to an annotation"},
      {file_with("", R"([{"id": 1, "file_name": "a", "height": 1, "width": 1},
                         {"id": 1, "file_name": "b", "height": 1, "width": 1}])"),
       "line 2, column 26: the id 1 was given to an image before"},
      {file_with("", kImages, R"([{"id": 1, "name": "a"}, {"id": 1, "name": "b"}])"),
       "the id 1 was given to a category before"},
      {file_with("", R"([{"id": 1, "file_name": "a", "height": 0, "width": 1}])"),
       "the image has a height of 0 pixels"},
      {file_with("", R"([{"id": 1, "height": 1, "width": 1}])"), "\"file_name\" is missing"},
      {file_with("", kImages, R"([{"id": "1", "name": "a"}])"),
       "\"id\" is of another type: a text, expected a number"},
      {file_with("", kImages, R"([{"id": 1.0, "name": "a"}])"), "\"id\" is 1.0, expected a whole"},
      {file_with("", kImages, R"([{"id": 99999999999999999999, "name": "a"}])"),
       "expected a whole number of 64 bits"},
      {file_with(R"({"id": 1, "image_id": 6, "category_id": 1, "bbox": [1, 1, 2, 3]})"),
       "annotation 1 is of image 6, which \"images\" does not list"},
      {file_with(R"({"id": 1, "image_id": 5, "category_id": 2, "bbox": [1, 1, 2, 3]})"),
       "annotation 1 is of category 2, which \"categories\" does not list"},
      {file_with(R"({"id": 1, "image_id": 5, "category_id": 1, "bbox": [1, 1, 2]})"),
       "\"bbox\" has 3 numbers"},
      {file_with(R"({"id": 1, "image_id": 5, "category_id": 1, "bbox": [1, 1, null, 2]})"),
       "a number of \"bbox\" is of another type: null"},
      {file_with(R"({"id": 1, "image_id": 5, "category_id": 1, "bbox": [1, 1, NaN, 2]})"),
       "near annotations[0].bbox[1]: found 'NaN', expected a value"},
      {file_with(R"({"id": 1, "image_id": 5, "category_id": 1, "bbox": [1, 1, 1e999, 2]})"),
       "a number below 1.8e308"},
      {file_with(annotation(R"(, "iscrowd": 2)")), "\"iscrowd\" is 2, expected 0 or 1"},
      {file_with(annotation(R"(, "iscrowd": "0")")), "\"iscrowd\" is of another type"},
      {file_with(annotation(R"(, "area": [])")), "\"area\" is of another type: a list"},
      {file_with(annotation(R"(, "segmentation": [[1, 2], [3,]])")), "line 1, column"},
      {file_with(annotation(R"(, "id": 2)")), "key \"id\" again"},
  };
  for (const auto& c : cases) EXPECT_THAT(problem_of(c.json), HasSubstr(c.problem)) << c.json;
}

// Who scores needs no names and sizes, and does not look at them.
TEST(CocoInstances, OfScoresHaveIds) {
  const std::string json =
      file_with(R"({"id": 1, "image_id": 5, "category_id": 1, "bbox": [1, 1, 2, 3]})",
                R"([{"id": 5}, {"id": 4, "file_name": 7, "width": -1}])", R"([{"id": 1}])");
  const CocoInstances file = parse_coco_instances(json, "it", CocoUse::kScores);
  EXPECT_EQ(file.images[1].id, 4);
  EXPECT_EQ(file.categories[0].id, 1);
  EXPECT_EQ(file.objects_of(0).size(), 1u);
  EXPECT_THAT(problem_of(json), HasSubstr("is missing"));
}

TEST(CocoInstances, RealFiles) {
  if (!test::has_coco()) GTEST_SKIP() << test::coco_folder() << " is not there";
  const struct {
    const char* split;
    size_t objects, crowds, empty;
  } splits[] = {{"train", 368, 4, 1}, {"val", 327, 5, 2}};  // by the data's README
  for (const auto& split : splits) {
    const CocoInstances file = read(test::coco_annotations(split.split));
    EXPECT_EQ(file.images.size(), 40u);
    EXPECT_EQ(file.categories.size(), 80u);
    EXPECT_EQ(file.categories.back().id, 90);
    EXPECT_EQ(file.objects.size(), split.objects);
    size_t crowds = 0, empty = 0;
    for (size_t i = 0; i < file.images.size(); ++i) {
      empty += file.objects_of(i).empty();
      for (const CocoObject& object : file.objects_of(i)) {
        EXPECT_EQ(object.image_id, file.images[i].id);
        EXPECT_GT(object.area, 0);
        crowds += object.crowd;
      }
    }
    EXPECT_EQ(crowds, split.crowds);
    EXPECT_EQ(empty, split.empty);
  }
}

}  // namespace
}  // namespace assay::data
