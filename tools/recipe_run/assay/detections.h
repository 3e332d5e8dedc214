// Objects that a model in training finds in photographs, scored as COCO's tools do.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/recipe_run/assay/objects.h"

namespace reciperun::engine {

// Whether evaluation.evaluator asks for this.
bool scores_detections(const v1::Recipe& recipe);
// Fails (kUsage) for an evaluation.arg that such an evaluator does not take. But for score_decimals
// they say what the model does anyway, and another value is refused.
void require_detection_arguments(const v1::Evaluation& evaluation);

// Places in a batch to evaluate on. What follows the model's inputs says which image it was, and
// how many of its pixels one of the sample is.
struct DetectorBatch {
  enum { kImage, kBoxes, kClasses, kCount, kSourceId, kScale, kArrays };
};

// What a model finds in a batch, by image and best first: boxes of four numbers, scores, classes.
class Found {
 public:
  Found(Forward& model, const Batch& batch);
  std::span<const float> boxes(int64_t row) const { return part(boxes_, row, 4 * most_); }
  std::span<const float> scores(int64_t row) const { return part(scores_, row, most_); }
  std::span<const int32_t> classes(int64_t row) const { return part(classes_, row, most_); }

 private:
  template <class T>
  static std::span<const T> part(const std::vector<T>& all, int64_t row, size_t count) {
    return std::span(all).subspan(static_cast<size_t>(row) * count, count);
  }
  size_t most_ = 0;  // of an image
  std::vector<float> boxes_, scores_;
  std::vector<int32_t> classes_;
};

// Of the predictor that is evaluated.
std::string detector_config(const v1::Recipe& recipe);

class Detections {
 public:
  // `model` outlives it. Error kDataMismatch for data that are no photographs with boxes.
  Detections(const v1::Recipe& recipe, const assay_model* model);

  // One evaluation: begins with the model's present weights, or their averages if those are what
  // the recipe selects, takes the first `rows` of each batch, and ends with COCO's numbers, "AP",
  // "AP50", ..., without those of sizes that no object has. What was found is left in
  // folder/detections.json, in COCO's form; curves and categories, for reports, in
  // folder/detection_scores.json.
  void begin();
  void add(const Batch& batch, int64_t rows);
  std::map<std::string, double> finish(const fs::path& folder);

 private:
  const assay_model* model_;
  std::string instances_, predictor_config_;
  double rounding_ = 0;  // scores are whole multiples of 1 / rounding; 0: as they are
  // Of an evaluation:
  std::optional<Forward> forward_;
  FoundObjects found_;
};

}  // namespace reciperun::engine
