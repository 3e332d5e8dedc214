// Objects that a model in training finds in photographs, scored as COCO's tools do.
#pragma once

#include <map>
#include <optional>

#include "tools/recipe_run/assay/objects.h"

namespace reciperun::engine {

// Whether evaluation.evaluator asks for this.
bool scores_detections(const v1::Recipe& recipe);
// Fails (kUsage) for an evaluation.arg that such an evaluator does not take. But for score_decimals
// they say what the model does anyway, and another value is refused.
void require_detection_arguments(const v1::Evaluation& evaluation);

class Detections {
 public:
  // `model` outlives it. Error kDataMismatch for data that are no photographs with boxes.
  Detections(const v1::Recipe& recipe, const assay_model* model);

  // One evaluation: begins with the model's present weights, or their averages if those are what
  // the recipe selects, takes the first `rows` of each batch, and ends with COCO's numbers, "AP",
  // "AP50", ..., without those of sizes that no object has. What was found is left in
  // folder/detections.json, in COCO's form.
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
