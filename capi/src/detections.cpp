// Detections through the C interface: collected image by image, in COCO's form, and scored.
#include <cmath>
#include <map>
#include <span>

#include "assay/assay_data.h"
#include "capi/src/abi.h"
#include "capi/src/access.h"
#include "capi/src/report.h"
#include "capi/src/reports.pb.h"
#include "datasets/gzip.h"
#include "sdk/base/config.h"
#include "sdk/base/file.h"
#include "sdk/data/detection/results.h"

struct assay_detections {
  mutable assay::capi::Access access;
  std::map<int64_t, std::vector<assay::data::Detection>> images;  // by id
};

namespace assay::capi {
namespace {

constexpr uint64_t kMaxJsonBytes = uint64_t{1} << 32;

struct DetectionScoreConfig {
  bool curves = false;
  bool given_only = false;
  void fields(ConfigFields& f) {
    f("given_only", given_only, "whether only images that were given count");
    f("curves", curves, "whether the report has precision by recall at each overlap");
  }
};

// What a predictor gave for an image.
struct FoundRow {
  const float *boxes, *scores;
  const int32_t* classes;
};

// Number i of a row, in pixels of the image, computed in f32 as detectors do.
data::Detection detection_of(const FoundRow& row, size_t i, int64_t image_id, float scale) {
  const std::span box(row.boxes + 4 * i, 4);
  for (const float number : {box[0], box[1], box[2], box[3]})
    expect(std::isfinite(number * scale), {"", "boxes"}, cat(number, " in box ", i),
           "numbers that are finite, also times scale");
  expect(std::isfinite(row.scores[i]), {"", "scores"}, cat(row.scores[i], " of box ", i),
         "finite numbers");
  for (const size_t axis : {0, 1})
    expect(box[axis] <= box[axis + 2], {"", "boxes"}, cat(box[axis], " in box ", i), "at most ",
           box[axis + 2], ": a box is ymin, xmin, ymax, xmax");
  const float x = box[1] * scale, y = box[0] * scale;
  const float width = box[3] * scale - x, height = box[2] * scale - y;
  return {image_id, int64_t{row.classes[i]} + 1, x, y, width, height, row.scores[i]};
}

std::vector<data::Detection> all_of(const assay_detections& detections) {
  std::vector<data::Detection> all;
  for (const auto& [id, found] : detections.images)
    all.insert(all.end(), found.begin(), found.end());
  return all;
}

void set_averages(const data::AverageScores& from, AverageRow& to) {
  to.set_ap(from.ap);
  to.set_ap50(from.ap50);
  to.set_ap75(from.ap75);
  to.set_ap_small(from.ap_small);
  to.set_ap_medium(from.ap_medium);
  to.set_ap_large(from.ap_large);
  to.set_ar1(from.ar1);
  to.set_ar10(from.ar10);
  to.set_ar100(from.ar100);
  to.set_ar_small(from.ar_small);
  to.set_ar_medium(from.ar_medium);
  to.set_ar_large(from.ar_large);
}

// Adds the curve of each overlap; precision(overlap, point).
template <class Precision, class Row>
void add_curves(Row& row, Precision&& precision) {
  for (size_t t = 0; t < data::kOverlaps; ++t) {
    CurveRow& curve = *row.add_curves();
    curve.set_overlap(data::overlap_threshold(t));
    for (size_t point = 0; point < data::kRecallPoints; ++point)
      curve.add_precision(precision(t, point));
  }
}

void add_mean_curves(std::span<const data::CategoryScores> categories, DetectionReport& report) {
  const auto with_objects = std::ranges::count_if(
      categories, [](const data::CategoryScores& category) { return category.objects[0] > 0; });
  if (with_objects == 0) return;
  add_curves(report, [&](size_t t, size_t point) {
    double sum = 0;
    for (const data::CategoryScores& category : categories)
      if (category.objects[0] > 0) sum += category.precision[0][t][point];
    return sum / static_cast<double>(with_objects);
  });
}

void add_category(const data::CategoryScores& from, bool curves, DetectionReport& report) {
  CategoryRow& row = *report.add_categories();
  row.set_id(static_cast<double>(from.category.id));
  row.set_name(from.category.name);
  row.set_objects(static_cast<double>(from.objects[0]));
  row.set_detections(static_cast<double>(from.detections));
  set_averages(data::average_scores({&from, 1}), *row.mutable_scores());
  if (curves && from.objects[0] > 0)
    add_curves(row, [&](size_t t, size_t point) { return from.precision[0][t][point]; });
}

// Of the images that `detections` has been given.
data::CocoInstances given_of(data::CocoInstances all, const assay_detections& detections) {
  data::CocoInstances given{.categories = std::move(all.categories), .begins = {0}};
  for (size_t i = 0; i < all.images.size(); ++i) {
    if (!detections.images.contains(all.images[i].id)) continue;
    const auto objects = all.objects_of(i);
    given.objects.insert(given.objects.end(), objects.begin(), objects.end());
    given.begins.push_back(given.objects.size());
    given.images.push_back(std::move(all.images[i]));
  }
  return given;
}

DetectionReport score(const assay_detections& detections, const std::string& instances,
                      const DetectionScoreConfig& config) {
  data::CocoInstances truth = data::parse_coco_instances(
      datasets::read_maybe_gzip(instances, kMaxJsonBytes), instances, data::CocoUse::kScores);
  if (config.given_only) truth = given_of(std::move(truth), detections);
  const std::vector<data::Detection> all = all_of(detections);
  const data::DetectionScores scores = data::score_detections(truth, all);
  DetectionReport report;
  report.set_images(static_cast<double>(truth.images.size()));
  report.set_images_found(static_cast<double>(std::ranges::count_if(
      detections.images, [](const auto& image) { return !image.second.empty(); })));
  int64_t objects = 0;
  for (const data::CategoryScores& category : scores.categories) objects += category.objects[0];
  report.set_objects(static_cast<double>(objects));
  report.set_detections(static_cast<double>(all.size()));
  report.set_foreign(static_cast<double>(scores.foreign));
  set_averages(scores.all, *report.mutable_all());
  for (const data::CategoryScores& category : scores.categories)
    add_category(category, config.curves, report);
  if (config.curves) add_mean_curves(scores.categories, report);
  return report;
}

}  // namespace
}  // namespace assay::capi

using namespace assay;
using namespace assay::capi;

assay_status assay_detections_create(assay_detections** out, assay_error** err) {
  return guard(err, [&] {
    cleared(out);
    *out = new assay_detections;
  });
}

assay_status assay_detections_open(assay_str path, assay_detections** out, assay_error** err) {
  return guard(err, {{"path", path}}, [&] {
    cleared(out);
    const std::string file = checked_path(path, "path");
    auto detections = std::make_unique<assay_detections>();
    for (const data::Detection& each :
         data::parse_detection_results(datasets::read_maybe_gzip(file, kMaxJsonBytes), file))
      detections->images[each.image_id].push_back(each);
    *out = detections.release();
  });
}

assay_status assay_detections_add(assay_detections* d, int64_t image_id, float scale,
                                  const float* boxes, const float* scores, const int32_t* classes,
                                  size_t n, assay_error** err) {
  return guard(err, [&] {
    assay_detections& detections = not_null(d, "d");
    const ExclusiveUse use(detections.access, "collection of detections");
    expect(std::isfinite(scale) && scale > 0, {"", "scale"}, scale, "above 0");
    check_array(boxes, n, "boxes");
    check_array(scores, n, "scores");
    check_array(classes, n, "classes");
    std::vector<data::Detection> found;
    for (size_t i = 0; i < n && classes[i] >= 0; ++i)
      found.push_back(detection_of({boxes, scores, classes}, i, image_id, scale));
    detections.images[image_id] = std::move(found);
  });
}

assay_status assay_detections_size(const assay_detections* d, int64_t* images, int64_t* detections,
                                   assay_error** err) {
  return guard(err, [&] {
    const assay_detections& all = not_null(d, "d");
    const SharedUse use(all.access, "collection of detections");
    int64_t found = 0;
    for (const auto& [id, of_image] : all.images) found += static_cast<int64_t>(of_image.size());
    if (images != nullptr) *images = static_cast<int64_t>(all.images.size());
    if (detections != nullptr) *detections = found;
  });
}

assay_status assay_detections_save(const assay_detections* d, assay_str path, assay_error** err) {
  return guard(err, {{"path", path}}, [&] {
    const assay_detections& detections = not_null(d, "d");
    const SharedUse use(detections.access, "collection of detections");
    const std::vector<data::Detection> all = all_of(detections);
    write_file_atomic(checked_path(path, "path"), data::detection_results(all));
  });
}

assay_status assay_detections_score(const assay_detections* d, assay_str instances,
                                    assay_str config_json, assay_report** out, assay_error** err) {
  return guard(err, {{"instances", instances}}, [&] {
    cleared(out);
    const assay_detections& detections = not_null(d, "d");
    const SharedUse use(detections.access, "collection of detections");
    DetectionScoreConfig config;
    parse_json(to_text(config_json, "config_json"), config, "scores");
    *out = new_report(score(detections, checked_path(instances, "instances"), config));
  });
}

void assay_detections_free(assay_detections* d) { delete d; }
