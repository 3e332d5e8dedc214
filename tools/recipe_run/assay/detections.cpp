// What the model finds goes into a collection of the library, image by image, which scores it
// against the published file that lies beside the records.
#include "tools/recipe_run/assay/detections.h"

#include <fmt/core.h>

#include <cmath>

#include "tools/recipe_run/assay/configuration.h"
#include "tools/recipe_run/record/record.pb.h"
#include "tools/recipe_run/util/json.h"

namespace reciperun::engine {
namespace {

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

// Wherever they are.
template <class T>
std::vector<T> numbers_of(const Tensor& tensor) {
  std::vector<T> out(info_of(tensor.get()).bytes / sizeof(T));
  call(Exit::kCrashed, assay_tensor_read, tensor.get(), static_cast<void*>(out.data()),
       out.size() * sizeof(T));
  return out;
}

// A loader's number of each image.
template <class T>
T of_image(const Batch& batch, size_t array, int64_t row) {
  return static_cast<const T*>(info_of(batch.data()[array]).data)[row];
}

std::map<std::string, double> metrics_of(const Struct& scores) {
  std::map<std::string, double> metrics;
  for (const auto& [name, key] : kMetrics)
    if (const double value = assay::tools::at(scores, key).number_value(); value >= 0)
      metrics[name] = value;
  return metrics;
}

// What reports show of the library's.
record::DetectionScores shown(const Struct& report) {
  record::DetectionScores out;
  for (const Struct& each : objects_of(report, "categories")) {
    record::DetectionScores::Category& category = *out.add_category();
    category.set_name(name_of(each));
    category.set_objects(integer_of(each, "objects"));
    category.set_detections(integer_of(each, "detections"));
    const auto metrics = metrics_of(assay::tools::at(each, "scores").struct_value());
    category.mutable_metric()->insert(metrics.begin(), metrics.end());
  }
  for (const Struct& each : objects_of(report, "curves")) {
    record::DetectionScores::Curve& curve = *out.add_curve();
    curve.set_overlap(assay::tools::at(each, "overlap").number_value());
    for (const auto& value : assay::tools::at(each, "precision").list_value().values())
      curve.add_precision(value.number_value());
  }
  return out;
}

}  // namespace

Found::Found(Forward& model, const Batch& batch) {
  const std::vector<Tensor> outputs = model.run(batch.data());
  boxes_ = numbers_of<float>(outputs[0]);
  scores_ = numbers_of<float>(outputs[1]);
  classes_ = numbers_of<int32_t>(outputs[2]);
  most_ = static_cast<size_t>(info_of(outputs[1].get()).shape[1]);
}

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

std::string detector_config(const v1::Recipe& recipe) {
  const bool averages = recipe.evaluation().select() == v1::Evaluation::EMA_LAST;
  return predictor_config(recipe, evaluation_batch(recipe),
                          {.averages = averages, .suppression = ""});
}

Detections::Detections(const v1::Recipe& recipe, const assay_model* model)
    : model_(model),
      predictor_config_(detector_config(recipe)),
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
  if (batch.whole_size() != DetectorBatch::kArrays)
    throw Error(Exit::kDataMismatch, "the records do not say which image they show");
  const Found found(*forward_, batch);
  for (int64_t row = 0; row < rows; ++row) {
    const std::span<const float> given = found.scores(row);
    std::vector<float> scores(given.begin(), given.end());
    if (rounding_ != 0)
      for (float& score : scores)
        score = static_cast<float>(std::round(score * rounding_) / rounding_);
    call(Exit::kDataMismatch, assay_detections_add, found_.get(),
         of_image<int64_t>(batch, DetectorBatch::kSourceId, row),
         of_image<float>(batch, DetectorBatch::kScale, row), found.boxes(row).data(),
         static_cast<const float*>(scores.data()), found.classes(row).data(), scores.size());
  }
}

std::map<std::string, double> Detections::finish(const fs::path& folder) {
  forward_.reset();
  call(Exit::kCrashed, assay_detections_save, found_.get(),
       text((folder / "detections.json").string()));
  const Struct report =
      report_of(Exit::kDataMismatch, assay_detections_score, found_.get(), text(instances_),
                text(R"({"given_only": true, "curves": true})"));
  write_json(folder / "detection_scores.json", shown(report));
  return metrics_of(assay::tools::at(report, "all").struct_value());
}

}  // namespace reciperun::engine
