#include "tools/recipe_run/engine/training_trial.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "tools/recipe_run/engine/pictures.h"
#include "tools/recipe_run/engine/recipe_objects.h"
#include "tools/recipe_run/engine/segmenter.h"
#include "tools/recipe_run/recipe/trials.h"

namespace reciperun::engine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kCursorKey = "assay.cursor";

// What an evaluation adds up, batch after batch.
struct EvaluationSums {
  int64_t samples = 0, batches = 0;
  double loss = 0, top1 = 0, top5 = 0;
  double dice_loss = 0, cross_entropy = 0;  // of the batches' means

  void add(const assay_eval_info& batch) {
    samples += batch.samples;
    loss += batch.loss_sum, top1 += batch.top1, top5 += batch.top5;
  }
  void add_segmented(int64_t n, double dice_loss_sum, double cross_entropy_sum) {
    ++batches;
    dice_loss += dice_loss_sum / static_cast<double>(n);
    cross_entropy += cross_entropy_sum / static_cast<double>(n);
  }
  std::map<std::string, double> classification() const {
    const auto n = static_cast<double>(samples);
    return {{"accuracy", top1 / n}, {"top1", top1 / n}, {"top5", top5 / n}, {"loss", loss / n}};
  }
  // As the published scripts score: a mean over the images of each batch, then over the batches
  // with equal weight, an incomplete last one included.
  std::map<std::string, double> segmentation() const {
    const auto n = static_cast<double>(batches);
    return {{"dice", 1 - dice_loss / n},
            {"cross_entropy", cross_entropy / n},
            {"loss", (cross_entropy + dice_loss) / n}};
  }
};

class AssayTrial : public TrainingTrial {
 public:
  AssayTrial(const assay_context* context, const v1::Recipe& recipe, uint64_t trial,
             uint32_t devices, bool on_gpu)
      : recipe_(recipe),
        model_(new_model(context, recipe)),
        feeding_(feeding_for(training_data(recipe), on_gpu)) {
    require_disjoint_folds(training_data(recipe), evaluation_data(recipe));
    const auto [fold, seed] = trial_part(recipe, trial);
    const v1::DataRef& data = training_data(recipe);
    const int64_t batch = recipe.training().batch_per_device();
    Share share = share_of(recipe, data, fold);
    share.world_size = devices;
    for (share.rank = 0; share.rank < devices; ++share.rank) {
      train_.push_back(new_training_loader(
          context, recipe, feeding_, training_loader_config(recipe, data, seed, batch, share)));
    }
    length_ = training_length(recipe, loader_samples(train_[0].get()), devices);
    const auto report = model_report(model_.get());
    parameters_ = static_cast<uint64_t>(integer(report.fields().at("parameters")));
    const std::string config = trainer_config(recipe, variables_of(report), length_, seed, 0,
                                              devices, feeding_.raw_images);
    assay_trainer* trainer = nullptr;
    call(Exit::kUsage, assay_trainer_create, model_.get(), nullptr, text(config), &trainer);
    trainer_.reset(trainer);
    const v1::DataRef& held_out = evaluation_data(recipe);
    const Share evaluated = share_of(recipe, held_out, fold);
    held_out_ = evaluated.records;
    eval_ = new_loader(context, recipe, held_out,
                       evaluation_loader_config(recipe, held_out, evaluated));
  }

  void resume(const fs::path& file) {
    assay_report* report = nullptr;
    try {
      call(Exit::kTampered, assay_checkpoint_load, trainer_.get(), text(file.string()), uint32_t{0},
           &report);
    } catch (const Error& error) {
      throw Error(Exit::kTampered, error.what(),
                  "remove '" + file.parent_path().string() +
                      "' and run the same command again: this trial then begins anew");
    }
    step_ = integer(parse_report(Report(report).get()).fields().at("step"));
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
    const auto start = Clock::now();
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
    return {info.step, info.samples, losses / batches, info.learning_rate,
            std::chrono::duration<double>(Clock::now() - start).count()};
  }

  std::map<std::string, double> evaluate(const Tick& tick) override {
    const uint32_t flags =
        recipe_.evaluation().select() == v1::Evaluation::EMA_LAST ? ASSAY_EVAL_EMA : 0;
    const int64_t samples = evaluated_samples();
    call(Exit::kCrashed, assay_loader_seek, eval_.get(), int64_t{0});
    EvaluationSums sums;
    const bool segments = segments_images();
    while (sums.samples < samples) {
      const assay_tensor* batch[kBatchTensors] = {};
      call(Exit::kCrashed, assay_loader_next, eval_.get(), batch, kBatchTensors, nullptr);
      assay_eval_info info{};
      info.struct_size = sizeof info;
      call(Exit::kCrashed, assay_trainer_eval, trainer_.get(), batch, kBatchTensors, flags, &info);
      require_labels(info.samples);
      sums.add(info);
      if (segments) sums.add_segmented(info.samples, scalar("dice_loss"), scalar("cross_entropy"));
      if (!tick(static_cast<double>(sums.samples) / static_cast<double>(samples)))
        throw Error(Exit::kInterrupted, "stopped while evaluating");
    }
    return segments ? sums.segmentation() : sums.classification();
  }

  void save(const fs::path& file) override {
    const std::string position = ahead_ ? cursor_ : cursor();
    call(Exit::kCrashed, assay_trainer_set_metadata, trainer_.get(), text(kCursorKey),
         text(position));
    call(Exit::kCrashed, assay_checkpoint_save, trainer_.get(), text(file.string()), uint32_t{0});
  }

  void illustrate(const fs::path& folder) override {
    if (!segments_images() || !can_write_pictures()) return;
    call(Exit::kCrashed, assay_loader_seek, eval_.get(), int64_t{0});
    const auto count = static_cast<size_t>(loader_samples(eval_.get()));
    Segmenter segmenter(model_.get(), recipe_, evaluation_batch(recipe_));
    std::vector<SegmentedImage> images;
    while (images.size() < count) {
      const assay_tensor* batch[kBatchTensors] = {};
      assay_batch_info info{};
      info.struct_size = sizeof info;
      call(Exit::kCrashed, assay_loader_next, eval_.get(), batch, kBatchTensors, &info);
      for (SegmentedImage& image : segmenter.label(batch, info.valid)) {
        image.name = slice_name(images.size());
        images.push_back(std::move(image));
      }
    }
    write_pictures(folder, images);
    write_predictions(folder / "predictions.tif", images, kMicrographSide);
  }

 private:
  int64_t evaluated_samples() const {
    const int64_t all = loader_samples(eval_.get());
    const v1::Evaluation& evaluation = recipe_.evaluation();
    if (evaluation.batches() == 0) return all;
    return std::min(all, int64_t{evaluation.batches()} * evaluation_batch(recipe_));
  }

  // By its place in the stack: "slice-07".
  std::string slice_name(size_t index) const {
    const std::string number =
        std::to_string(held_out_.empty() ? static_cast<int64_t>(index) : held_out_[index]);
    return "slice-" + (number.size() < 2 ? "0" + number : number);
  }

  void require_labels(int64_t samples) const {
    if (samples > 0) return;
    throw Error(Exit::kDataMismatch, "data '" + evaluation_data(recipe_).id() +
                                         "': a batch without labels cannot be evaluated on");
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
    const assay_tensor* batch[kRawTensors] = {};
    call(Exit::kCrashed, assay_loader_next, train_[device].get(), batch, feeding_.tensors, nullptr);
    call(Exit::kCrashed, assay_trainer_prefetch, trainer_.get(), batch, feeding_.tensors);
    ahead_ = true;
  }

  // Models of images to images are measured by the overlap of their classes.
  bool segments_images() const {
    const auto& metrics = recipe_.evaluation().metric();
    return std::find(metrics.begin(), metrics.end(), "dice") != metrics.end();
  }

  // Of the last evaluation batch.
  double scalar(std::string_view name) const {
    double value = 0;
    call(Exit::kUsage, assay_trainer_scalar, trainer_.get(), text(name), &value);
    return value;
  }

  v1::Recipe recipe_;
  Model model_;
  Feeding feeding_;
  Trainer trainer_;
  std::vector<Loader> train_;  // by emulated device
  Loader eval_;
  std::vector<int64_t> held_out_;  // records of eval_; empty = all
  Length length_;
  uint64_t parameters_ = 0;
  int64_t step_ = 0;
  size_t turn_ = 0;     // batches taken from the loaders
  bool ahead_ = false;  // one batch more than was trained
  std::string cursor_;  // before that batch
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
