// Batches are prefetched beside the step before theirs; the place in the data is that of the batch
// that was trained last.
#include "tools/recipe_run/assay/phase.h"

#include "tools/recipe_run/assay/pipeline.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun::engine {

Length phase_length(const v1::Recipe& recipe, const PhasePlace& place) {
  const v1::DataRef& data = training_data(recipe);
  const auto records = std::ssize(share_of(recipe, data, place.fold).records);
  return training_length(recipe, records > 0 ? records : split_samples(recipe, data),
                         place.devices);
}

PhaseTraining::PhaseTraining(const assay_context* context, const v1::Recipe& recipe,
                             assay_model* model, const PhasePlace& place, const Length& length)
    : feeding_(feeding_for(training_data(recipe), place.on_gpu)), ranks_(place.ranks) {
  const v1::DataRef& data = training_data(recipe);
  Share share = share_of(recipe, data, place.fold);
  share.world_size = place.devices;
  for (share.rank = 0; share.rank < place.devices; ++share.rank) {
    if (ranks_ != nullptr && share.rank != ranks_->rank()) continue;
    loaders_.push_back(
        new_training_loader(context, recipe, feeding_,
                            training_loader_config(recipe, data, place.seed,
                                                   recipe.training().batch_per_device(), share)));
  }
  batch_.emplace(loaders_[0].get(), feeding_.raw_images.empty() ? model : nullptr);
  const std::string config = trainer_config(recipe, length, encoder_layers(model), place.seed, 0,
                                            place.devices, feeding_.raw_images);
  assay_trainer_options options{};
  options.struct_size = sizeof options;
  options.comm = ranks_ == nullptr ? nullptr : ranks_->comm();
  trainer_ = made<Trainer>(Exit::kUsage, assay_trainer_create, model, &options, text(config));
  if (is_text(data)) {  // who answers questions with a checkpoint needs no other file
    const std::string folder = folder_of(recipe, data).string();
    const Text words = made<Text>(Exit::kDataMismatch, assay_text_create, text(folder), text(""));
    call(Exit::kCrashed, assay_text_attach, words.get(), trainer_.get());
  }
}

StepResult PhaseTraining::run_step() {
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
  const double loss = mean_over_ranks(losses / batches);
  return {info.step, info.samples, loss, info.learning_rate, watch.seconds()};
}

// Every rank has had as many batches.
double PhaseTraining::mean_over_ranks(double loss) const {
  if (ranks_ == nullptr) return loss;
  double sum = 0;
  for (const std::string& each : ranks_->gather(shortest(loss))) sum += std::stod(each);
  return sum / ranks_->world();
}

void PhaseTraining::restore(std::string_view cursor) {
  for (const Loader& loader : loaders_)
    call(Exit::kTampered, assay_loader_restore, loader.get(), cursor.data(), cursor.size());
}

std::string PhaseTraining::cursor_now() const {
  size_t size = 0;
  call(Exit::kCrashed, assay_loader_cursor, loaders_[0].get(), nullptr, size_t{0}, &size);
  std::string bytes(size, '\0');
  call(Exit::kCrashed, assay_loader_cursor, loaders_[0].get(), static_cast<void*>(bytes.data()),
       bytes.size(), &size);
  return bytes;
}

// Has the trainer take the next batch over, of the device whose turn it is.
void PhaseTraining::prefetch() {
  const size_t device = turn_++ % loaders_.size();
  if (device == 0) cursor_ = cursor_now();
  batch_->next(loaders_[device].get());
  call(Exit::kCrashed, assay_trainer_prefetch, trainer_.get(), batch_->data(), batch_->size());
  ahead_ = true;
}

namespace {

// NULL if nothing keeps that kind of the variable.
Tensor moment_of(const assay_model* model, const std::string& variable, int32_t kind) {
  assay_tensor* tensor = nullptr;
  return assay_model_tensor(model, text(variable), kind, &tensor, nullptr) == ASSAY_OK
             ? Tensor(tensor)
             : nullptr;
}

}  // namespace

Moments::Moments(const assay_model* model) {
  for (const Struct& variable : objects_of(model_report(model), "variables")) {
    for (const int32_t kind : {ASSAY_KIND_MOMENT1, ASSAY_KIND_MOMENT2}) {
      const Tensor tensor = moment_of(model, name_of(variable), kind);
      if (!tensor) continue;
      Moment& moment = moments_.emplace_back(Moment{name_of(variable), kind, {}});
      moment.numbers.resize(info_of(tensor.get()).bytes);
      call(Exit::kCrashed, assay_tensor_read, tensor.get(),
           static_cast<void*>(moment.numbers.data()), moment.numbers.size());
    }
  }
}

void Moments::give_to(const assay_model* model) const {
  for (const Moment& moment : moments_) {
    const Tensor tensor = moment_of(model, moment.variable, moment.kind);
    require(tensor != nullptr, "training.phase: the optimizer does not keep " + moment.variable +
                                   "'s moments of the phase before");
    call(Exit::kCrashed, assay_tensor_write, tensor.get(),
         static_cast<const void*>(moment.numbers.data()), moment.numbers.size());
  }
}

}  // namespace reciperun::engine
