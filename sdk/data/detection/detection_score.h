// How well objects were found: COCO's average precision and recall, twelve numbers, to the last bit
// those of its published Python tools (pycocotools).
//
// A detection is right at a threshold if it overlaps an object of its category in its image by at
// least that much (intersection over union) and no better detection has taken the object. Crowds,
// and objects of another size than asked for, are neither to be found nor wrong to find.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sdk/data/coco_instances.h"

namespace assay::data {

struct Detection {
  int64_t image_id = 0, category_id = 0;
  double x = 0, y = 0, width = 0, height = 0;  // pixels from the upper left corner
  double score = 0;                            // the higher, the surer; finite as all of these
};

// Sizes of objects, by their area: all; small, to 32^2 pixels; medium, to 96^2; large.
enum class ObjectSize { kAll, kSmall, kMedium, kLarge };
inline constexpr size_t kObjectSizes = 4;
// Of overlap: 0.5, 0.55, ... 0.95.
inline constexpr size_t kOverlaps = 10;
double overlap_threshold(size_t i);
// Of recall, where precision is read: 0, 0.01, ... 1.
inline constexpr size_t kRecallPoints = 101;
double recall_point(size_t i);

// Means in [0, 1] over thresholds, recall points and categories; -1 if there is nothing to find.
struct AverageScores {
  // Precision: over all thresholds; at 0.5 and at 0.75; over all thresholds by size.
  double ap = -1, ap50 = -1, ap75 = -1, ap_small = -1, ap_medium = -1, ap_large = -1;
  // Recall over all thresholds: of the best detection, the 10 and the 100 best of an image and
  // category; of the 100 best by size.
  double ar1 = -1, ar10 = -1, ar100 = -1, ar_small = -1, ar_medium = -1, ar_large = -1;
};

struct CategoryScores {
  CocoCategory category;
  std::array<int64_t, kObjectSizes> objects{};  // to be found, without crowds
  int64_t detections = 0;                       // the 100 best of each image at most
  // Of a size without objects all are -1.
  std::array<std::array<std::array<double, kRecallPoints>, kOverlaps>, kObjectSizes> precision{};
  std::array<std::array<double, kOverlaps>, kObjectSizes> recall{};  // the highest
  std::array<double, kOverlaps> recall_of_1{}, recall_of_10{};       // of all sizes
};

struct DetectionScores {
  AverageScores all;
  std::vector<CategoryScores> categories;  // by ascending id
  int64_t foreign = 0;                     // detections of other categories, left out
};

// Of equal scores the detection that comes first is the better one: in an image as given, then by
// ascending id of the image. kInvalid: a detection in an image that the file does not list, or with
// a number that is not finite.
DetectionScores score_detections(const CocoInstances& truth, std::span<const Detection> detections);

AverageScores average_scores(std::span<const CategoryScores> categories);

}  // namespace assay::data
