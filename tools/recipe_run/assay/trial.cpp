// AssayTrial trains one seed or fold, phase after phase: evaluation, checkpoints with the place in
// the data, pictures.
#include "tools/recipe_run/assay/trial.h"

#include <fmt/core.h>

#include <deque>
#include <numeric>
#include <optional>
#include <vector>

#include "tools/common/class_names.h"
#include "tools/recipe_run/assay/evaluator.h"
#include "tools/recipe_run/assay/folds.h"
#include "tools/recipe_run/assay/misses.h"
#include "tools/recipe_run/assay/objects.h"
#include "tools/recipe_run/assay/phase.h"
#include "tools/recipe_run/assay/pictures.h"
#include "tools/recipe_run/assay/pipeline.h"
#include "tools/recipe_run/assay/pretrained.h"
#include "tools/recipe_run/recipe/facts.h"
#include "tools/recipe_run/util/json.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun::engine {
namespace {

// Of a checkpoint's metadata.
constexpr const char* kCursorKey = "assay.cursor";
constexpr const char* kPhaseKey = "recipe_run.phase";
constexpr const char* kLossesKey = "recipe_run.losses";

constexpr size_t kLastLosses = 10;  // whose mean is the score of training_loss

// The texts that a checkpoint carries.
std::map<std::string, std::string> metadata_of(const fs::path& checkpoint) {
  const std::string path = checkpoint.string();
  std::map<std::string, std::string> out;
  for (const Struct& text_of_host :
       objects_of(report_of(Exit::kTampered, assay_checkpoint_inspect, text(path)), "metadata"))
    out[name_of(text_of_host, "key")] = name_of(text_of_host, "value");
  return out;
}

class AssayTrial : public TrainingTrial {
 public:
  // `first`: the phase that it begins in.
  AssayTrial(const assay_context* context, const v1::Recipe& recipe, uint64_t trial,
             uint32_t devices, const RankGroup* ranks, bool on_gpu)
      : context_(context),
        recipe_(recipe),
        phases_(phases_of(recipe)),
        model_(new_model(context, recipe)) {
    if (has_evaluation_data(recipe)) {
      preparation_ = transform_config(evaluation_data(recipe));
      for (const v1::Recipe& phase : phases_)
        require_disjoint_folds(training_data(phase), evaluation_data(recipe));
    }
    const auto [fold, seed] = trial_part(recipe, trial);
    place_ = {fold, seed, devices, on_gpu, ranks};
    for (const v1::Recipe& phase : phases_) lengths_.push_back(phase_length(phase, place_));
    parameters_ = static_cast<uint64_t>(integer_of(model_report(model_.get()), "parameters"));
  }

  void start() {
    if (recipe_.trials().count() > 0)  // what is only timed needs no weights of its own
      begin_weights(recipe_, model_.get(), place_.seed);
    begin_phase(0);
  }

  void resume(const fs::path& file) {
    const std::string path = file.string();
    try {
      auto metadata = metadata_of(file);
      begin_phase(std::stoull("0" + metadata[kPhaseKey]));
      step_ = integer_of(report_of(Exit::kTampered, assay_checkpoint_load, training_->trainer(),
                                   text(path), uint32_t{0}),
                         "step");
      for (const std::string& loss : split(metadata[kLossesKey], ' '))
        if (!loss.empty()) losses_.push_back(std::stod(loss));
    } catch (const Error& error) {
      throw Error(Exit::kTampered, error.what(),
                  "remove '" + file.parent_path().string() +
                      "' and run the same command again: this trial then begins anew");
    }
    assay_str cursor{};
    call(Exit::kTampered, assay_trainer_get_metadata, training_->trainer(), text(kCursorKey),
         &cursor);
    training_->restore({cursor.data, cursor.size});
  }

  int64_t step() const override { return steps_before(phase_) + step_; }
  int64_t total_steps() const override { return steps_before(phases_.size()); }
  // Phases may have epochs of several lengths; what counts then is how many there are in all.
  double steps_per_epoch() const override {
    double epochs = 0;
    for (const Length& length : lengths_)
      epochs +=
          static_cast<double>(length.total_steps) / static_cast<double>(length.steps_per_epoch);
    return phases_.size() == 1 ? static_cast<double>(lengths_[0].steps_per_epoch)
                               : static_cast<double>(total_steps()) / epochs;
  }
  uint64_t parameters() const override { return parameters_; }

  StepResult run_step() override {
    if (step_ == lengths_[phase_].total_steps) next_phase();
    StepResult result = training_->run_step();
    step_ = result.step;
    result.step += steps_before(phase_);
    for (size_t k = 0; k < phase_; ++k)
      result.samples += lengths_[k].total_steps * samples_per_step(phases_[k], place_.devices);
    losses_.push_back(result.loss);
    if (losses_.size() > kLastLosses) losses_.pop_front();
    return result;
  }

  record::Eval evaluate(const fs::path& folder, const Tick& tick) override {
    if (scores_training_loss(recipe_)) {
      record::Eval mean;
      (*mean.mutable_metric())["loss"] = std::accumulate(losses_.begin(), losses_.end(), 0.0) /
                                         static_cast<double>(losses_.size());
      return mean;
    }
    require(evaluator_.has_value(), "'" + recipe_.id() + "' only measures speed");
    return evaluator_->evaluate(folder, tick);
  }

  std::vector<std::string> metrics() const override {
    if (scores_training_loss(recipe_)) return {"loss"};
    return evaluator_ ? evaluator_->metrics() : std::vector<std::string>();
  }

  std::optional<record::Communication> communication() const override {
    if (place_.ranks == nullptr) return std::nullopt;
    record::Communication all = earlier_;
    add_communication(all);
    return all;
  }

  void save(const fs::path& file) override {
    const auto set = [&](const char* key, const std::string& value) {
      call(Exit::kCrashed, assay_trainer_set_metadata, training_->trainer(), text(key),
           text(value));
    };
    set(kCursorKey, training_->cursor());
    // With it assay-predict prepares pictures as they are evaluated here.
    if (has_evaluation_data(recipe_)) set("preparation", preparation_);
    if (phases_.size() > 1) set(kPhaseKey, std::to_string(phase_));
    if (scores_training_loss(recipe_)) {
      std::vector<std::string> losses;
      for (const double loss : losses_) losses.push_back(shortest(loss));
      set(kLossesKey, join(losses, " "));
    }
    call(Exit::kCrashed, assay_checkpoint_save, training_->trainer(), text(file.string()),
         uint32_t{0});
  }

  void illustrate(const fs::path& folder) override {
    if (!evaluator_ || !can_write_pictures()) return;
    assay_loader* held_out = evaluator_->loader();
    if (scores_detections(recipe_)) {
      const std::string data = folder_of(recipe_, evaluation_data(recipe_)).string();
      Forward forward(model_.get(), detector_config(recipe_));
      draw_worst_misses(folder, held_out, forward, preparation_,
                        assay::tools::class_names_of(data));
    }
    if (!evaluator_->segments_images()) return;
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
  int64_t steps_before(size_t phase) const {
    int64_t steps = 0;
    for (size_t k = 0; k < phase; ++k) steps += lengths_[k].total_steps;
    return steps;
  }

  // That of the phase under way.
  void add_communication(record::Communication& to) const {
    const Struct report = report_of(Exit::kCrashed, assay_trainer_report, training_->trainer());
    if (!assay::tools::has(report, "communication")) return;
    const Struct own = assay::tools::at(report, "communication").struct_value();
    const auto number = [&](const char* key) { return assay::tools::at(own, key).number_value(); };
    to.set_ranks(static_cast<uint32_t>(number("ranks")));
    to.set_updates(to.updates() + static_cast<int64_t>(number("updates")));
    to.set_bytes(to.bytes() + number("bytes"));
    if (!assay::tools::has(own, "seconds")) return;
    to.set_seconds(to.seconds() + number("seconds"));
    to.set_waited(to.waited() + number("waited"));
  }

  // A model has one trainer at a time, and the evaluator uses it.
  void begin_phase(size_t phase) {
    require(phase < phases_.size(), "the checkpoint is of another training");
    evaluator_.reset();
    training_.reset();
    phase_ = phase, step_ = 0;
    const v1::Recipe& recipe = phases_[phase];
    training_.emplace(context_, recipe, model_.get(), place_, lengths_[phase]);
    if (!scores_training_loss(recipe) &&
        (recipe.trials().count() > 0 || has_evaluation_data(recipe)))
      evaluator_.emplace(context_, recipe, model_.get(), training_->trainer(), place_.devices,
                         place_.ranks, share_of(recipe, evaluation_data(recipe), place_.fold));
  }

  // On the same weights and moments, and under the same loss scale; steps count from 0.
  void next_phase() {
    const Moments moments(model_.get());
    const double scale =
        assay::tools::at(report_of(Exit::kCrashed, assay_trainer_report, training_->trainer()),
                         "loss_scale")
            .number_value();
    if (place_.ranks != nullptr) add_communication(earlier_);
    begin_phase(phase_ + 1);
    moments.give_to(model_.get());
    if (recipe_.numerics().loss_scale().starts_with("dynamic"))
      call(Exit::kCrashed, assay_trainer_set, training_->trainer(), text("loss_scale"), scale);
  }

  // By its place in the stack: "slice-07".
  std::string slice_name(size_t index) const {
    const std::vector<int64_t>& records = evaluator_->records();
    return fmt::format("slice-{:02}",
                       records.empty() ? static_cast<int64_t>(index) : records[index]);
  }

  const assay_context* context_;
  v1::Recipe recipe_;
  std::vector<v1::Recipe> phases_;
  std::vector<Length> lengths_;  // of the phases
  PhasePlace place_;
  Model model_;
  std::optional<PhaseTraining> training_;  // the phase under way
  std::optional<Evaluator> evaluator_;     // absent where nothing is evaluated
  uint64_t parameters_ = 0;
  size_t phase_ = 0;
  int64_t step_ = 0;               // of this phase
  std::deque<double> losses_;      // of the last steps
  record::Communication earlier_;  // of the phases before
  std::string preparation_;        // of pictures that are evaluated: a loader's transform
};

}  // namespace

std::unique_ptr<TrainingTrial> make_training_trial(const assay_context* context,
                                                   const v1::Recipe& recipe, uint64_t trial,
                                                   uint32_t devices, const RankGroup* ranks,
                                                   bool on_gpu, const fs::path& checkpoint) {
  auto made = std::make_unique<AssayTrial>(context, recipe, trial, devices, ranks, on_gpu);
  checkpoint.empty() ? made->start() : made->resume(checkpoint);
  return made;
}

}  // namespace reciperun::engine
