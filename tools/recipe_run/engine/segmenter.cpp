#include "tools/recipe_run/engine/segmenter.h"

#include <unistd.h>

#include "tools/recipe_run/engine/configuration.h"
#include "tools/recipe_run/engine/micrograph_pipeline.h"

namespace reciperun::engine {
namespace {

assay_tensor_info info_of(const assay_tensor* tensor) {
  assay_tensor_info info{};
  info.struct_size = sizeof info;
  call(Exit::kCrashed, assay_tensor_get_info, tensor, &info);
  return info;
}

// A folder for files that nobody keeps.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "recipe-run-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw Error(Exit::kCrashed, "cannot create a folder in " + fs::temp_directory_path().string(),
                  "name another place for temporary files in TMPDIR");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// One image at a time, once.
Loader one_by_one(const assay_context* context, const v1::Recipe& recipe, const fs::path& folder,
                  std::string_view split) {
  const std::string transform = evaluation_loader_config(recipe, evaluation_data(recipe)).transform;
  const std::string path = folder.string();
  assay_loader* loader = nullptr;
  call(Exit::kUsage, assay_loader_create, context, text(path), text(split),
       text(R"({"batch_size": 1, "order": "sequential", "epochs": 1})"), text(transform), &loader);
  return Loader(loader);
}

int64_t batches_of(const assay_loader* loader) {
  assay_report* report = nullptr;
  call(Exit::kCrashed, assay_loader_report, loader, &report);
  const auto object = parse_report(Report(report).get());
  return static_cast<int64_t>(object.fields().at("batches_per_epoch").number_value());
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

std::vector<SegmentedImage> segment_split(const assay_context* context, const assay_model* model,
                                          const v1::Recipe& recipe, const fs::path& folder,
                                          std::string_view split, const Tick& tick) {
  const Loader loader = one_by_one(context, recipe, folder, split);
  const auto count = static_cast<size_t>(batches_of(loader.get()));
  Segmenter segmenter(model, recipe, 1);
  std::vector<SegmentedImage> images;
  while (images.size() < count) {
    const assay_tensor* batch[2] = {};
    call(Exit::kCrashed, assay_loader_next, loader.get(), batch, size_t{2}, nullptr);
    images.push_back(std::move(segmenter.label(batch, 1)[0]));
    if (!tick(static_cast<double>(images.size()) / static_cast<double>(count)))
      throw Error(Exit::kInterrupted, "stopped after " + std::to_string(images.size()) + " of " +
                                          std::to_string(count) + " slices");
  }
  return images;
}

std::vector<SegmentedImage> segment_files(const assay_context* context, const assay_model* model,
                                          const v1::Recipe& recipe, const fs::path& source,
                                          const Tick& tick) {
  const TemporaryFolder converted;
  const std::string from = source.string(), to = converted.path().string();
  call(Exit::kUsage, assay_dataset_convert, context, text(evaluation_data(recipe).lock()),
       text(from), text(to), text(""), nullptr, uintptr_t{0}, nullptr);
  return segment_split(context, model, recipe, converted.path(), "test", tick);
}

}  // namespace reciperun::engine
