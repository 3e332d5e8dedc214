// Reads item by item, so that a file of millions of boxes needs little more memory than they.
#include "sdk/data/detection/results.h"

#include "sdk/base/error.h"
#include "sdk/base/json_reader.h"
#include "sdk/base/json_writer.h"
#include "sdk/data/coco_instances.h"

namespace assay::data {
namespace {

using Kind = JsonValue::Kind;

class ResultsReader {
 public:
  explicit ResultsReader(const JsonSource& source) : json_(source) {}

  std::vector<Detection> read() {
    JsonItems items;
    items.take = [this](std::string_view key, size_t, const JsonValue& item) {
      if (!key.empty()) fail_form(item);
      detections_.push_back(detection(item));
    };
    const JsonValue root = json_.parse_items(items);
    if (root.kind != Kind::kList) fail_form(root);
    return std::move(detections_);
  }

 private:
  [[noreturn]] void fail_form(const JsonValue& at) const {
    json_.fail_at(at,
                  "results are one list: [{\"image_id\": .., \"category_id\": .., "
                  "\"bbox\": [x, y, width, height], \"score\": ..}, ...]");
  }

  Detection detection(const JsonValue& item) const {
    json_.expect_kind(item, Kind::kObject, "a detection");
    if (json_.find(item, "bbox") == nullptr && json_.find(item, "caption") != nullptr)
      json_.fail_at(item, "these results are captions, which have no boxes");
    Detection d;
    d.image_id = json_.integer(item, "image_id");
    d.category_id = json_.integer(item, "category_id");
    const JsonValue& numbers = read_coco_box(json_, item, {&d.x, &d.y, &d.width, &d.height});
    if (d.width < 0 || d.height < 0)
      json_.fail_at(numbers,
                    "the box has a negative width or height; \"bbox\" is x and y of the "
                    "upper left corner, width, height");
    d.score = json_.to_real(json_.member(item, "score", Kind::kNumber), "\"score\"");
    return d;
  }

  JsonReader json_;
  std::vector<Detection> detections_;
};

}  // namespace

std::string detection_results(std::span<const Detection> detections) {
  JsonWriter json;
  json.open('[');
  for (const Detection& d : detections) {
    json.next('[');
    json.open('{');
    json.key("image_id");
    json.integer(d.image_id);
    json.key("category_id");
    json.integer(d.category_id);
    json.key("bbox");
    json.open('[');
    for (const double number : {d.x, d.y, d.width, d.height}) {
      json.next('[');
      json.real(number);
    }
    json.close(']');
    json.key("score");
    json.real(d.score);
    json.close('}');
  }
  json.close(']');
  return json.take();
}

std::vector<Detection> parse_detection_results(std::string_view json, std::string_view what) {
  return ResultsReader({json, what}).read();
}

}  // namespace assay::data
