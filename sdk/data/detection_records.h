// Records of photographs with boxes (FORMAT.md), by the feature names of TensorFlow's object
// detection: records that its converters made, or that were derived from them, are read too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/data/example.h"

namespace assay::data {

// Boxes of an image that a detector learns from, crowds not counted.
inline constexpr int64_t kMostBoxes = 99;

struct DetectionObject {
  float ymin = 0, xmin = 0, ymax = 0, xmax = 0;  // shares of the image's height and width
  int64_t category = 1;                          // from 1
  bool crowd = false;
  float area = 0;    // pixels; not read
  std::string name;  // of the category; not read
};

struct DetectionRecord {
  int64_t source_id = -1;         // of the image; -1 where the record's is no number
  std::string file_name;          // not read
  std::string_view jpeg;          // the file
  int64_t height = 0, width = 0;  // not read: the file knows
  std::vector<DetectionObject> objects;
};

void write_detection(const DetectionRecord& record, std::string& payload);

// Replaces `record`, whose file lies in `example`. Fails with kFormat: a payload or a feature of
// another kind, features of boxes that are not equally many, numbers that are not finite, a box
// that ends before it begins, a category that is not 1 to `categories`.
void read_detection(std::string_view payload, int64_t categories, Example& example,
                    DetectionRecord& record);

}  // namespace assay::data
