// Instance annotations of COCO (Lin et al., arXiv:1405.0312): categories, images, and the objects
// that are marked in them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace assay {
class JsonReader;
struct JsonValue;
}  // namespace assay

namespace assay::data {

struct CocoCategory {
  int64_t id = 0;
  std::string name;
};

struct CocoImage {
  int64_t id = 0;
  // Of files read for scores alone "" and 0:
  std::string file_name;
  int64_t height = 0, width = 0;  // pixels, at least 1
};

// As the file has it: a box may be empty, inverted or outside of its image.
struct CocoObject {
  int64_t id = 0, image_id = 0, category_id = 0;
  double x = 0, y = 0, width = 0, height = 0;  // pixels from the upper left corner
  double area = 0;     // of the segment; of the box where the file does not say
  bool crowd = false;  // the box is around several that were not told apart
};

struct CocoInstances {
  std::vector<CocoCategory> categories;  // in the order of the file
  std::vector<CocoImage> images;         // in the order of the file
  std::vector<CocoObject> objects;       // image after image, of each in the order of the file
  std::vector<size_t> begins;            // where an image's objects begin, and their end

  std::span<const CocoObject> objects_of(size_t image) const {
    return {objects.data() + begins[image], begins[image + 1] - begins[image]};
  }
};

// What a file is read for. Who scores needs no more of images and categories than their ids, and
// pycocotools asks for no more.
enum class CocoUse { kImages, kScores };

// `what` names the text in messages. Segmentations are passed over, whatever they are. Fails with
// kFormat, saying where: text that is no JSON, annotations of another kind (captions), a member
// that is missing or of another type, an id given twice, an annotation of an image or a category
// that the file does not list.
CocoInstances parse_coco_instances(std::string_view json, std::string_view what,
                                   CocoUse use = CocoUse::kImages);

// Reads the member "bbox" of an annotation or a result: x, y, width, height.
const JsonValue& read_coco_box(const JsonReader& json, const JsonValue& item,
                               const std::array<double*, 4>& box);

}  // namespace assay::data
