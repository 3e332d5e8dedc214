// Any bytes as a record of an image with boxes: refused with an Error, or a sample whose numbers
// are in their ranges, for training and for evaluation.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "sdk/base/error.h"
#include "sdk/data/augment/detection_transform.h"
#include "sdk/data/detection_records.h"
#include "sdk/data/jpeg.h"

namespace {

using namespace assay::data;

constexpr int kRows = 16, kColumns = 24;
constexpr int64_t kCategories = 90;

Transform make_transform(bool trains) {
  DetectionTransformConfig config;
  config.size = {kRows, kColumns};
  if (trains) config.scale_jitter = {0.1f, 2}, config.flip_horizontal = 0.5f;
  config.origin = true;
  return make_detection_transform(kCategories, config);
}

void check(bool ok) {
  if (!ok) std::abort();
}

void make_sample(SampleMaker& maker, std::string_view record) {
  std::vector<float> image(kRows * kColumns * 3, NAN), boxes(4 * kMostBoxes, NAN);
  std::vector<int32_t> classes(kMostBoxes, -7);
  int32_t count = -7;
  int64_t source_id = 0;
  float scale = NAN;
  std::byte* arrays[] = {
      reinterpret_cast<std::byte*>(image.data()),   reinterpret_cast<std::byte*>(boxes.data()),
      reinterpret_cast<std::byte*>(classes.data()), reinterpret_cast<std::byte*>(&count),
      reinterpret_cast<std::byte*>(&source_id),     reinterpret_cast<std::byte*>(&scale)};
  std::string prepared;
  maker.prepare(record, prepared);
  assay::PhiloxStream random(1, 2, record.size());
  maker.finish(prepared, random, arrays);
  for (const float pixel : image) check(pixel >= 0 && pixel <= 1);
  check(count >= 0 && count <= kMostBoxes && scale > 0 && std::isfinite(scale));
  for (size_t i = 0; i < kMostBoxes; ++i) {
    const float* box = &boxes[4 * i];
    const bool is_box = i < static_cast<size_t>(count);
    check(classes[i] >= (is_box ? 0 : -1) && classes[i] < (is_box ? kCategories : 0));
    check(box[0] >= 0 && box[2] <= kRows - 1 && box[1] >= 0 && box[3] <= kColumns - 1);
    check(is_box ? box[0] < box[2] && box[1] < box[3] : box[2] == 0 && box[3] == 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Transform kTransforms[] = {make_transform(true), make_transform(false)};
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  for (const Transform& transform : kTransforms) {
    const auto maker = transform.make_worker();
    try {
      make_sample(*maker, input);
    } catch (const assay::Error&) {
    }
  }
  return 0;
}
