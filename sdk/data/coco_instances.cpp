// A file of instance annotations, item by item: of half a gigabyte, most of it outlines of objects,
// only the boxes are kept.
#include "sdk/data/coco_instances.h"

#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "sdk/base/error.h"
#include "sdk/base/json_reader.h"

namespace assay::data {
namespace {

using Kind = JsonValue::Kind;

class CocoReader {
 public:
  CocoReader(const JsonSource& source, CocoUse use) : json_(source), use_(use) {}

  CocoInstances read() {
    JsonItems items;
    items.skipped = {"segmentation", "keypoints", "segments_info"};
    items.take = [this](std::string_view list, size_t, const JsonValue& item) { take(list, item); };
    const JsonValue root = json_.parse_items(items);
    if (root.kind != Kind::kObject)
      json_.fail_at(root, "instances are an object with images, annotations and categories");
    for (const char* key : {"images", "annotations", "categories"}) json_.list(root, key);
    if (file_.images.empty()) json_.fail_at(root, "\"images\" is empty");
    sort_by_image();
    return std::move(file_);
  }

 private:
  void take(std::string_view list, const JsonValue& item) {
    if (list == "images") {
      add_image(item);
    } else if (list == "annotations") {
      add_object(item);
    } else if (list == "categories") {
      add_category(item);
    }
  }

  // The id of an item of a list; no other item has it.
  int64_t new_id(const JsonValue& item, std::string_view called,
                 std::unordered_set<int64_t>& known) const {
    json_.expect_kind(item, Kind::kObject, called);
    const int64_t id = json_.integer(item, "id");
    if (!known.insert(id).second)
      json_.fail_at(item, cat("the id ", id, " was given to ", called, " before"));
    return id;
  }

  void add_category(const JsonValue& item) {
    const int64_t id = new_id(item, "a category", categories_);
    const bool is_named = use_ != CocoUse::kScores || json_.find(item, "name") != nullptr;
    file_.categories.push_back({id, is_named ? json_.text(item, "name") : ""});
  }

  void add_image(const JsonValue& item) {
    const int64_t id = new_id(item, "an image", images_);
    if (use_ == CocoUse::kScores) return file_.images.push_back({id});
    const auto side = [&](std::string_view key) {
      const int64_t pixels = json_.integer(item, key);
      if (pixels < 1) json_.fail_at(item, cat("the image has a ", key, " of ", pixels, " pixels"));
      return pixels;
    };
    file_.images.push_back({id, json_.text(item, "file_name"), side("height"), side("width")});
  }

  void add_object(const JsonValue& item) {
    require_box(item);
    CocoObject object;
    object.id = new_id(item, "an annotation", annotations_);
    object.image_id = json_.integer(item, "image_id");
    object.category_id = json_.integer(item, "category_id");
    read_coco_box(json_, item, {&object.x, &object.y, &object.width, &object.height});
    const JsonValue* area = json_.find(item, "area");
    object.area = area ? json_.to_real(*area, "\"area\"") : object.width * object.height;
    object.crowd = is_crowd(item);
    file_.objects.push_back(object);
    places_.push_back(item.offset);
  }

  // Files of COCO's other tasks have the same images and other annotations.
  void require_box(const JsonValue& item) const {
    json_.expect_kind(item, Kind::kObject, "an annotation");
    if (json_.find(item, "bbox") != nullptr) return;
    if (json_.find(item, "caption") != nullptr)
      json_.fail_at(item,
                    "these annotations are captions, which have no boxes: take the file of "
                    "instances (instances_train2017.json, instances_val2017.json)");
    if (json_.find(item, "segments_info") != nullptr)
      json_.fail_at(item,
                    "these annotations are panoptic, one for all of an image: take the file "
                    "of instances (instances_train2017.json, instances_val2017.json)");
  }

  bool is_crowd(const JsonValue& item) const {
    const JsonValue* crowd = json_.find(item, "iscrowd");
    if (crowd == nullptr) return false;
    const int64_t value = json_.to_integer(*crowd, "\"iscrowd\"");
    if (value != 0 && value != 1)
      json_.fail_at(*crowd, cat("\"iscrowd\" is ", value, ", expected 0 or 1"));
    return value == 1;
  }

  // Also looks up what the annotations name, since lists come in any order.
  void sort_by_image() {
    std::unordered_map<int64_t, size_t> place_of;
    for (const CocoImage& image : file_.images) place_of.emplace(image.id, place_of.size());
    std::vector<size_t>& begins = file_.begins;
    begins.assign(file_.images.size() + 1, 0);
    std::vector<size_t> image_of;
    for (size_t i = 0; i < file_.objects.size(); ++i) {
      const CocoObject& object = file_.objects[i];
      const auto image = place_of.find(object.image_id);
      if (image == place_of.end())
        json_.fail_at(places_[i], cat("annotation ", object.id, " is of image ", object.image_id,
                                      ", which \"images\" does not list"));
      if (!categories_.contains(object.category_id))
        json_.fail_at(places_[i], cat("annotation ", object.id, " is of category ",
                                      object.category_id, ", which \"categories\" does not list"));
      image_of.push_back(image->second);
      ++begins[image->second + 1];
    }
    for (size_t i = 1; i < begins.size(); ++i) begins[i] += begins[i - 1];
    std::vector<size_t> next(begins.begin(), begins.end() - 1);
    std::vector<CocoObject> sorted(file_.objects.size());
    for (size_t i = 0; i < sorted.size(); ++i) sorted[next[image_of[i]]++] = file_.objects[i];
    file_.objects = std::move(sorted);
  }

  JsonReader json_;
  CocoUse use_;
  CocoInstances file_;
  std::unordered_set<int64_t> images_, annotations_, categories_;
  std::vector<size_t> places_;  // of the annotations, in the text
};

}  // namespace

CocoInstances parse_coco_instances(std::string_view json, std::string_view what, CocoUse use) {
  return CocoReader({json, what}, use).read();
}

const JsonValue& read_coco_box(const JsonReader& json, const JsonValue& item,
                               const std::array<double*, 4>& box) {
  const JsonValue& numbers = json.member(item, "bbox", Kind::kList);
  if (numbers.items.size() != box.size())
    json.fail_at(numbers, cat("\"bbox\" has ", numbers.items.size(),
                              " numbers, expected x, y, width and height"));
  for (size_t i = 0; i < box.size(); ++i)
    *box[i] = json.to_real(numbers.items[i], "a number of \"bbox\"");
  return numbers;
}

}  // namespace assay::data
