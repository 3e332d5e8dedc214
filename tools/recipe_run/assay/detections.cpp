// What the model finds goes into a collection of the library, image by image, which scores it
// against the published file that lies beside the records.
#include "tools/recipe_run/assay/detections.h"

#include <fmt/core.h>

#include <cmath>

#include "tools/recipe_run/assay/configuration.h"

namespace reciperun::engine {
namespace {

// Places in a batch, behind the model's inputs, and of its outputs.
enum { kSourceId = 4, kScale = 5, kArrays = 6 };
enum { kBoxes, kScores, kClasses };

// By the names that people know.
constexpr std::pair<const char*, const char*> kMetrics[] = {{"AP", "ap"},
                                                            {"AP50", "ap50"},
                                                            {"AP75", "ap75"},
                                                            {"AP_small", "ap_small"},
                                                            {"AP_medium", "ap_medium"},
                                                            {"AP_large", "ap_large"},
                                                            {"AR1", "ar1"},
                                                            {"AR10", "ar10"},
                                                            {"AR100", "ar100"},
                                                            {"AR_small", "ar_small"},
                                                            {"AR_medium", "ar_medium"},
                                                            {"AR_large", "ar_large"}};

// What the model does, and the only values that the arguments may have.
const std::map<std::string, std::string> kFixed = {
    {"nms", "gaussian_soft"}, {"nms_sigma", "0.5"},   {"nms_per_class", "true"},
    {"min_score", "0.001"},   {"candidates", "5000"}, {"max_detections", "100"}};

double rounding_of(const v1::Evaluation& evaluation) {
  const auto given = evaluation.arg().find("score_decimals");
  if (given == evaluation.arg().end()) return 0;
  require(given->second.size() == 1 && given->second[0] >= '1' && given->second[0] <= '6',
          "evaluation.arg.score_decimals '" + given->second + "' is not a number of digits",
          "1 to 6");
  return std::pow(10.0, given->second[0] - '0');
}

template <class T>
const T* row_of(const assay_tensor* tensor, int64_t row) {
  const assay_tensor_info info = info_of(tensor);
  int64_t elems = 1;
  for (int32_t i = 1; i < info.ndim; ++i) elems *= info.shape[i];
  return static_cast<const T*>(info.data) + row * elems;
}

}  // namespace

void require_detection_arguments(const v1::Evaluation& evaluation) {
  rounding_of(evaluation);
  for (const auto& [name, value] : evaluation.arg()) {
    const auto fixed = kFixed.find(name);
    if (fixed == kFixed.end() ? name != "score_decimals" : value != fixed->second)
      throw Error(Exit::kUsage,
                  fmt::format("evaluation.arg.{} '{}' is not offered by this engine", name, value),
                  "score_decimals; nms gaussian_soft, nms_sigma 0.5, nms_per_class true, "
                  "min_score 0.001, candidates 5000, max_detections 100");
  }
}

bool scores_detections(const v1::Recipe& recipe) {
  return recipe.evaluation().evaluator() == "coco_bbox_ap";
}

Detections::Detections(const v1::Recipe& recipe, const assay_model* model)
    : model_(model),
      predictor_config_(
          predictor_config(recipe, evaluation_batch(recipe),
                           {.averages = recipe.evaluation().select() == v1::Evaluation::EMA_LAST,
                            .suppression = ""})),
      rounding_(rounding_of(recipe.evaluation())) {
  const v1::DataRef& data = evaluation_data(recipe);
  if (prepared_as(data.lock()) != "objects")
    throw Error(Exit::kDataMismatch, "data '" + data.id() + "' have no boxes to be found",
                "a data set that 'dataset-convert coco' made");
  instances_ = (folder_of(recipe, data) / (data.split() + ".json")).string();
}

void Detections::begin() {
  forward_.emplace(model_, predictor_config_);
  found_ = made<FoundObjects>(Exit::kCrashed, assay_detections_create);
}

void Detections::add(const Batch& batch, int64_t rows) {
  if (batch.whole_size() != kArrays)
    throw Error(Exit::kDataMismatch, "the records do not say which image they show");
  const std::vector<Tensor> outputs = forward_->run(batch.data());
  const auto most = static_cast<size_t>(info_of(outputs[kScores].get()).shape[1]);
  std::vector<float> scores(most);
  for (int64_t row = 0; row < rows; ++row) {
    const float* given = row_of<float>(outputs[kScores].get(), row);
    for (size_t i = 0; i < most; ++i)
      scores[i] = rounding_ == 0 ? given[i]
                                 : static_cast<float>(std::round(given[i] * rounding_) / rounding_);
    call(Exit::kDataMismatch, assay_detections_add, found_.get(),
         *row_of<int64_t>(batch.data()[kSourceId], row), *row_of<float>(batch.data()[kScale], row),
         row_of<float>(outputs[kBoxes].get(), row), scores.data(),
         row_of<int32_t>(outputs[kClasses].get(), row), most);
  }
}

std::map<std::string, double> Detections::finish(const fs::path& folder) {
  forward_.reset();
  call(Exit::kCrashed, assay_detections_save, found_.get(),
       text((folder / "detections.json").string()));
  const Struct report = report_of(Exit::kDataMismatch, assay_detections_score, found_.get(),
                                  text(instances_), text(R"({"given_only": true})"));
  const Struct& all = assay::tools::at(report, "all").struct_value();
  std::map<std::string, double> metrics;
  for (const auto& [name, key] : kMetrics)
    if (const double value = assay::tools::at(all, key).number_value(); value >= 0)
      metrics[name] = value;
  return metrics;
}

}  // namespace reciperun::engine
