// AssayTrial trains one seed or fold: loaders, trainer, evaluation, checkpoints with the place in
// the data.
#include "tools/recipe_run/assay/trial.h"

#include <fmt/core.h>

#include <optional>
#include <vector>

#include "tools/recipe_run/assay/evaluator.h"
#include "tools/recipe_run/assay/folds.h"
#include "tools/recipe_run/assay/objects.h"
#include "tools/recipe_run/assay/pictures.h"
#include "tools/recipe_run/assay/pipeline.h"
#include "tools/recipe_run/recipe/facts.h"

namespace reciperun::engine {
namespace {

constexpr std::string_view kCursorKey = "assay.cursor";

class AssayTrial : public TrainingTrial {
 public:
  AssayTrial(const assay_context* context, const v1::Recipe& recipe, uint64_t trial,
             uint32_t devices, bool on_gpu)
      : recipe_(recipe),
        model_(new_model(context, recipe)),
        feeding_(feeding_for(training_data(recipe), on_gpu)) {
    if (has_evaluation_data(recipe)) {
      preparation_ = transform_config(evaluation_data(recipe));
      require_disjoint_folds(training_data(recipe), evaluation_data(recipe));
    }
    const auto [fold, seed] = trial_part(recipe, trial);
    const v1::DataRef& data = training_data(recipe);
    const int64_t batch = recipe.training().batch_per_device();
    Share share = share_of(recipe, data, fold);
    share.world_size = devices;
    for (share.rank = 0; share.rank < devices; ++share.rank) {
      train_.push_back(new_training_loader(
          context, recipe, feeding_, training_loader_config(recipe, data, seed, batch, share)));
    }
    batch_.emplace(train_[0].get(), feeding_.raw_images.empty() ? model_.get() : nullptr);
    length_ = training_length(recipe, loader_samples(train_[0].get()), devices);
    const Struct report = model_report(model_.get());
    parameters_ = static_cast<uint64_t>(integer_of(report, "parameters"));
    const std::string config =
        trainer_config(recipe, length_, seed, 0, devices, feeding_.raw_images);
    trainer_ =
        made<Trainer>(Exit::kUsage, assay_trainer_create, model_.get(), nullptr, text(config));
    if (is_text(data)) {  // who answers questions with a checkpoint needs no other file
      const std::string folder = folder_of(recipe, data).string();
      const Text words = made<Text>(Exit::kDataMismatch, assay_text_create, text(folder), text(""));
      call(Exit::kCrashed, assay_text_attach, words.get(), trainer_.get());
    }
    if (recipe.trials().count() > 0 || has_evaluation_data(recipe))
      evaluator_.emplace(context, recipe, model_.get(), trainer_.get(), devices,
                         share_of(recipe, evaluation_data(recipe), fold));
  }

  void resume(const fs::path& file) {
    const std::string path = file.string();
    try {
      step_ = integer_of(report_of(Exit::kTampered, assay_checkpoint_load, trainer_.get(),
                                   text(path), uint32_t{0}),
                         "step");
    } catch (const Error& error) {
      throw Error(Exit::kTampered, error.what(),
                  "remove '" + file.parent_path().string() +
                      "' and run the same command again: this trial then begins anew");
    }
    assay_str cursor{};
    call(Exit::kTampered, assay_trainer_get_metadata, trainer_.get(), text(kCursorKey), &cursor);
    for (const Loader& loader : train_)
      call(Exit::kTampered, assay_loader_restore, loader.get(), cursor.data, cursor.size);
  }

  int64_t step() const override { return step_; }
  int64_t total_steps() const override { return length_.total_steps; }
  double steps_per_epoch() const override { return static_cast<double>(length_.steps_per_epoch); }
  uint64_t parameters() const override { return parameters_; }

  StepResult run_step() override {
    const Stopwatch watch;
    assay_step_info info{};
    double losses = 0;
    int batches = 0;
    do {  // micro-batches, one device after the other, until one of them updates
      if (!ahead_) prefetch();
      prefetch();  // beside the step
      info = {};
      info.struct_size = sizeof info;
      call(Exit::kCrashed, assay_trainer_step, trainer_.get(), nullptr, size_t{0}, &info);
      losses += info.loss, ++batches;
    } while (info.micro_step > 0);
    step_ = info.step;
    return {info.step, info.samples, losses / batches, info.learning_rate, watch.seconds()};
  }

  record::Eval evaluate(const fs::path& folder, const Tick& tick) override {
    require(evaluator_.has_value(), "'" + recipe_.id() + "' only measures speed");
    return evaluator_->evaluate(folder, tick);
  }

  std::vector<std::string> metrics() const override {
    return evaluator_ ? evaluator_->metrics() : std::vector<std::string>();
  }

  void save(const fs::path& file) override {
    const std::string position = ahead_ ? cursor_ : cursor();
    call(Exit::kCrashed, assay_trainer_set_metadata, trainer_.get(), text(kCursorKey),
         text(position));
    // With it assay-predict prepares pictures as they are evaluated here.
    if (has_evaluation_data(recipe_))
      call(Exit::kCrashed, assay_trainer_set_metadata, trainer_.get(), text("preparation"),
           text(preparation_));
    call(Exit::kCrashed, assay_checkpoint_save, trainer_.get(), text(file.string()), uint32_t{0});
  }

  void illustrate(const fs::path& folder) override {
    if (!evaluator_ || !evaluator_->segments_images() || !can_write_pictures()) return;
    assay_loader* held_out = evaluator_->loader();
    call(Exit::kCrashed, assay_loader_seek, held_out, int64_t{0});
    const auto count = static_cast<size_t>(loader_samples(held_out));
    Forward forward(model_.get(), predictor_config(recipe_, evaluation_batch(recipe_)));
    std::vector<SegmentedImage> images;
    while (images.size() < count) {
      Batch batch(held_out);
      assay_batch_info info{};
      info.struct_size = sizeof info;
      batch.next(held_out, &info);
      for (SegmentedImage& image : segmented(forward, batch.data(), info.valid)) {
        image.name = slice_name(images.size());
        images.push_back(std::move(image));
      }
    }
    write_pictures(folder, images);
  }

 private:
  // By its place in the stack: "slice-07".
  std::string slice_name(size_t index) const {
    const std::vector<int64_t>& records = evaluator_->records();
    return fmt::format("slice-{:02}",
                       records.empty() ? static_cast<int64_t>(index) : records[index]);
  }

  // Of the first device's loader: between steps all stand at the same batch.
  std::string cursor() const {
    size_t size = 0;
    call(Exit::kCrashed, assay_loader_cursor, train_[0].get(), nullptr, size_t{0}, &size);
    std::string bytes(size, '\0');
    call(Exit::kCrashed, assay_loader_cursor, train_[0].get(), static_cast<void*>(bytes.data()),
         bytes.size(), &size);
    return bytes;
  }

  // Has the trainer take the next batch over, of the device whose turn it is.
  void prefetch() {
    const size_t device = turn_++ % train_.size();
    if (device == 0) cursor_ = cursor();
    batch_->next(train_[device].get());
    call(Exit::kCrashed, assay_trainer_prefetch, trainer_.get(), batch_->data(), batch_->size());
    ahead_ = true;
  }

  v1::Recipe recipe_;
  Model model_;
  Feeding feeding_;
  Trainer trainer_;
  std::vector<Loader> train_;           // by emulated device
  std::optional<Batch> batch_;          // the one that is prefetched
  std::optional<Evaluator> evaluator_;  // absent where nothing is evaluated
  Length length_;
  uint64_t parameters_ = 0;
  int64_t step_ = 0;
  size_t turn_ = 0;          // batches taken from the loaders
  bool ahead_ = false;       // one batch more than was trained
  std::string cursor_;       // before that batch
  std::string preparation_;  // of pictures that are evaluated: a loader's transform
};

}  // namespace

std::unique_ptr<TrainingTrial> make_training_trial(const assay_context* context,
                                                   const v1::Recipe& recipe, uint64_t trial,
                                                   uint32_t devices, bool on_gpu,
                                                   const fs::path& checkpoint) {
  auto made = std::make_unique<AssayTrial>(context, recipe, trial, devices, on_gpu);
  if (!checkpoint.empty()) made->resume(checkpoint);
  return made;
}

}  // namespace reciperun::engine
