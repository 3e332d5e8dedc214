// Boxes as columns of features, one number of each box in each; read strictly, since a loader takes
// records that others wrote.
#include "sdk/data/detection_records.h"

#include <charconv>
#include <cmath>
#include <span>

#include "sdk/base/error.h"
#include "sdk/base/sha256.h"
#include "sdk/data/example.pb.h"

namespace assay::data {
namespace {

// std::string, since features are looked up by it.
const std::string kFile = "image/encoded", kSourceId = "image/source_id",
                  kYMin = "image/object/bbox/ymin", kXMin = "image/object/bbox/xmin",
                  kYMax = "image/object/bbox/ymax", kXMax = "image/object/bbox/xmax",
                  kLabel = "image/object/class/label", kCrowd = "image/object/is_crowd";

template <class Value>
std::vector<Value> column(const DetectionRecord& record, Value (*of)(const DetectionObject&)) {
  std::vector<Value> values;
  for (const DetectionObject& object : record.objects) values.push_back(of(object));
  return values;
}

// Features without values are often left out.
std::span<const float> floats_or_none(const Example& example, const std::string& name) {
  return has_feature(example, name) ? floats_feature(example, name) : std::span<const float>();
}
std::span<const int64_t> int64s_or_none(const Example& example, const std::string& name) {
  return has_feature(example, name) ? int64s_feature(example, name) : std::span<const int64_t>();
}

int64_t source_id_of(const Example& example) {
  if (!has_feature(example, kSourceId)) return -1;
  const std::string& text = bytes_feature(example, kSourceId);
  const char* const end = text.data() + text.size();
  int64_t id = -1;
  const auto result = std::from_chars(text.data(), end, id);
  return result.ec == std::errc() && result.ptr == end ? id : -1;
}

void check(const DetectionObject& box, int64_t categories) {
  const bool finite = std::isfinite(box.ymin) && std::isfinite(box.xmin) &&
                      std::isfinite(box.ymax) && std::isfinite(box.xmax);
  require(finite && box.ymin <= box.ymax && box.xmin <= box.xmax, Code::kFormat, "a box from row ",
          box.ymin, " to ", box.ymax, " and column ", box.xmin, " to ", box.xmax,
          " of an image that goes from 0 to 1");
  require(box.category >= 1 && box.category <= categories, Code::kFormat, "feature \"", kLabel,
          "\" holds ", box.category, ", expected 1 to ", categories);
}

}  // namespace

void write_detection(const DetectionRecord& record, std::string& payload) {
  using Object = DetectionObject;
  Example example;
  set_bytes_feature(example, kFile, record.jpeg);
  set_bytes_feature(example, "image/format", "jpeg");
  set_bytes_feature(example, "image/key/sha256", sha256_hex(record.jpeg));
  set_bytes_feature(example, "image/filename", record.file_name);
  set_bytes_feature(example, kSourceId, cat(record.source_id));
  set_int64_feature(example, "image/height", record.height);
  set_int64_feature(example, "image/width", record.width);
  const auto floats = [&](const std::string& name, float (*of)(const Object&)) {
    set_floats_feature(example, name, column(record, of));
  };
  floats(kYMin, [](const Object& o) { return o.ymin; });
  floats(kXMin, [](const Object& o) { return o.xmin; });
  floats(kYMax, [](const Object& o) { return o.ymax; });
  floats(kXMax, [](const Object& o) { return o.xmax; });
  floats("image/object/area", [](const Object& o) { return o.area; });
  const auto integers = [&](const std::string& name, int64_t (*of)(const Object&)) {
    set_int64s_feature(example, name, column(record, of));
  };
  integers(kLabel, [](const Object& o) { return o.category; });
  integers(kCrowd, [](const Object& o) { return int64_t{o.crowd}; });
  set_bytes_list_feature(example, "image/object/class/text",
                         column<std::string>(record, [](const Object& o) { return o.name; }));
  serialize_example(example, payload);
}

void read_detection(std::string_view payload, int64_t categories, Example& example,
                    DetectionRecord& record) {
  parse_example(payload, example);
  record.jpeg = bytes_feature(example, kFile);
  record.source_id = source_id_of(example);
  const auto ymin = floats_or_none(example, kYMin), xmin = floats_or_none(example, kXMin),
             ymax = floats_or_none(example, kYMax), xmax = floats_or_none(example, kXMax);
  const auto labels = int64s_or_none(example, kLabel), crowds = int64s_or_none(example, kCrowd);
  const size_t boxes = labels.size();
  require(ymin.size() == boxes && xmin.size() == boxes && ymax.size() == boxes &&
              xmax.size() == boxes && (crowds.empty() || crowds.size() == boxes),
          Code::kFormat, "features of boxes have ", boxes, " labels, ", ymin.size(), ", ",
          xmin.size(), ", ", ymax.size(), " and ", xmax.size(), " coordinates and ", crowds.size(),
          " flags of crowds, expected equally many");
  record.objects.resize(boxes);
  for (size_t i = 0; i < boxes; ++i) {
    DetectionObject& object = record.objects[i];
    object.ymin = ymin[i], object.xmin = xmin[i], object.ymax = ymax[i], object.xmax = xmax[i];
    object.category = labels[i];
    object.crowd = !crowds.empty() && crowds[i] != 0;
    check(object, categories);
  }
}

}  // namespace assay::data
