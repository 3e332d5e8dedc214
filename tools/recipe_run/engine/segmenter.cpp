#include "tools/recipe_run/engine/segmenter.h"

#include "tools/recipe_run/engine/configuration.h"

namespace reciperun::engine {
namespace {

assay_tensor_info info_of(const assay_tensor* tensor) {
  assay_tensor_info info{};
  info.struct_size = sizeof info;
  call(Exit::kCrashed, assay_tensor_get_info, tensor, &info);
  return info;
}

}  // namespace

Segmenter::Segmenter(const assay_model* model, const v1::Recipe& recipe, int64_t batch) {
  const std::string config = predictor_config(recipe, batch);
  assay_predictor* predictor = nullptr;
  call(Exit::kUsage, assay_predictor_create, model, text(config), &predictor);
  predictor_.reset(predictor);
  assay_slot* slot = nullptr;
  call(Exit::kCrashed, assay_slot_create, predictor, &slot);
  slot_.reset(slot);
}

std::vector<SegmentedImage> Segmenter::label(const assay_tensor* const* batch, int64_t count) {
  const assay_tensor_info image = info_of(batch[0]), target = info_of(batch[1]);
  assay_tensor* output = nullptr;
  call(Exit::kCrashed, assay_predictor_run, predictor_.get(), slot_.get(), batch, size_t{1},
       &output, size_t{1});
  const Tensor logits(output);
  const auto side = static_cast<int>(target.shape[1]);
  const auto padded = static_cast<int>(image.shape[1]), frame = (padded - side) / 2;
  const auto* pixels = static_cast<const float*>(image.data);
  const auto* classes = static_cast<const float*>(target.data);
  std::vector<float> scores(info_of(output).bytes / sizeof(float));
  call(Exit::kCrashed, assay_tensor_read, output, static_cast<void*>(scores.data()),
       scores.size() * sizeof(float));  // a GPU's memory has no address here
  std::vector<SegmentedImage> images;
  for (int64_t row = 0; row < count; ++row) {
    SegmentedImage out{"", side, {}, {}, {}};
    for (int y = 0; y < side; ++y) {
      for (int x = 0; x < side; ++x) {
        const auto at = static_cast<size_t>((row * side + y) * side + x);
        out.image.push_back(pixels[(row * padded + y + frame) * padded + x + frame]);
        out.label.push_back(classes[2 * at + 1] > classes[2 * at]);
        out.predicted.push_back(scores[2 * at + 1] > scores[2 * at]);
      }
    }
    images.push_back(std::move(out));
  }
  return images;
}

}  // namespace reciperun::engine
