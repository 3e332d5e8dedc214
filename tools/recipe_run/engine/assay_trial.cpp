#include "tools/recipe_run/engine/assay_trial.h"

#include <array>
#include <chrono>

#include "tools/recipe_run/base/text.h"

namespace reciperun {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kBatchArrays = 2;  // image and label
constexpr char kCursor[] = "assay.cursor";

const v1::DataRef& evaluation_data(const v1::Recipe& recipe) {
  for (const v1::DataRef& data : recipe.data()) {
    if (!recipe.evaluation().data().empty() && data.id() == recipe.evaluation().data()) return data;
  }
  return data_of_role(recipe, {"eval", "test", "validation"});
}

// The next batch of a loader; its tensors are the loader's own.
std::array<const assay_tensor*, kBatchArrays> next_batch(assay_loader* loader,
                                                         assay_batch_info* info) {
  std::array<const assay_tensor*, kBatchArrays> batch{};
  call(Exit::kDataMismatch, assay_loader_next, loader, batch.data(), batch.size(), info);
  return batch;
}

}  // namespace

fs::path data_folder(const v1::Recipe& recipe, const v1::DataRef& data) {
  return fs::path(recipe.io().data_root().empty() ? "data" : recipe.io().data_root()) / data.lock();
}

int64_t split_records(const v1::Recipe& recipe, const v1::DataRef& data) {
  const fs::path folder = data_folder(recipe, data);
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) {
    throw Error(Exit::kDataMismatch,
                "data set '" + data.lock() + "' is not at '" + folder.string() + "'",
                "make it with dataset-convert " + data.lock() + " --to " + folder.string() +
                    ", or name its parent with --data");
  }
  const auto manifest = report(Exit::kDataMismatch, assay_dataset_report, str(folder.native()));
  const auto splits = manifest.fields().find("splits");
  if (splits != manifest.fields().end()) {
    for (const auto& entry : splits->second.list_value().values()) {
      const google::protobuf::Struct& split = entry.struct_value();
      if (split.fields().at("name").string_value() != data.split()) continue;
      const int64_t records = whole(split, "records");
      if (data.expect_samples() == 0 || records == static_cast<int64_t>(data.expect_samples()))
        return records;
      throw Error(Exit::kDataMismatch, "'" + folder.string() + "', split '" + data.split() +
                                           "' holds " + std::to_string(records) +
                                           " samples, the recipe expects " +
                                           std::to_string(data.expect_samples()));
    }
  }
  throw Error(Exit::kDataMismatch, "'" + folder.string() + "' has no split '" + data.split() + "'");
}

AssayTrial::AssayTrial(assay_context* context, const v1::Recipe& recipe, uint64_t seed,
                       uint32_t batch_override)
    : context_(context), recipe_(recipe) {
  const v1::Training& training = recipe_.training();
  const int64_t batch = batch_override > 0 ? batch_override : training.batch_per_device();
  const v1::DataRef& data = data_of_role(recipe_, {"train", "bench"});
  const int64_t records = split_records(recipe_, data);
  const int64_t batches = training.drop_last() ? records / batch : (records + batch - 1) / batch;
  if (batches == 0)
    throw Error(Exit::kDataMismatch, "'" + data.lock() + "' has fewer samples than one batch of " +
                                         std::to_string(batch));
  steps_per_epoch_ = static_cast<double>(batches) / std::max(1u, training.accumulate());
  total_steps_ = reciperun::total_steps(training, steps_per_epoch_);
  build_trainer(seed, batch);
  train_data_ =
      make<Loader>(Exit::kDataMismatch, assay_loader_create, context_,
                   str(data_folder(recipe_, data).native()), str(data.split()),
                   str(loader_config(recipe_, {batch, seed, true})), str(transform_config(data)));
}

void AssayTrial::build_trainer(uint64_t seed, int64_t batch) {
  const std::string configuration = model_config(recipe_.model());
  model_ = make<Model>(Exit::kUsage, assay_model_named, context_, str(recipe_.model().arch()),
                       str(configuration));
  const auto description = report(Exit::kUsage, assay_model_report, model_.get());
  parameters_ = static_cast<uint64_t>(whole(description, "parameters"));
  TrainerSetup setup;
  setup.batch = batch;
  setup.eval_batch = eval_batch_ =
      recipe_.evaluation().batch() > 0 ? recipe_.evaluation().batch() : batch;
  setup.steps_per_epoch = steps_per_epoch_;
  setup.total_steps = total_steps_;
  setup.seed = seed;
  for (const auto& entry : description.fields().at("variables").list_value().values()) {
    const auto& fields = entry.struct_value().fields();
    if (fields.at("role").string_value().find("stat") != std::string::npos)
      continue;  // running statistics are not trained
    setup.variables.push_back(
        {fields.at("name").string_value(), fields.at("shape").list_value().values_size()});
  }
  trainer_ = make<Trainer>(Exit::kUsage, assay_trainer_create, model_.get(), nullptr,
                           str(trainer_config(recipe_, setup)));
}

void AssayTrial::load(const fs::path& checkpoint) {
  const auto what = report(Exit::kTampered, assay_checkpoint_load, trainer_.get(),
                           str(checkpoint.native()), uint32_t{ASSAY_PART_ALL});
  step_ = whole(what, "step");
  assay_str cursor = {};
  call(Exit::kTampered, assay_trainer_get_metadata, trainer_.get(), str(kCursor), &cursor);
  call(Exit::kTampered, assay_loader_restore, train_data_.get(),
       static_cast<const void*>(cursor.data), cursor.size);
}

StepResult AssayTrial::run_step() {
  assay_step_info info = {};
  info.struct_size = sizeof info;
  const auto start = Clock::now();
  double loss = 0;
  const uint32_t micro_batches = std::max(1u, recipe_.training().accumulate());
  for (uint32_t i = 0; i < micro_batches; ++i) {
    const auto batch = next_batch(train_data_.get(), nullptr);
    call(Exit::kCrashed, assay_trainer_step, trainer_.get(), batch.data(), batch.size(), &info);
    loss += info.loss / micro_batches;
  }
  step_ = info.step;
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return {step_, info.samples, loss, info.learning_rate, seconds};
}

void AssayTrial::open_evaluation() {
  const v1::DataRef& data = evaluation_data(recipe_);
  const int64_t records = split_records(recipe_, data);
  eval_batches_ = (records + eval_batch_ - 1) / eval_batch_;
  eval_data_ = make<Loader>(Exit::kDataMismatch, assay_loader_create, context_,
                            str(data_folder(recipe_, data).native()), str(data.split()),
                            str(loader_config(recipe_, {eval_batch_, 0, false})),
                            str(transform_config(data)));
}

std::map<std::string, double> AssayTrial::evaluate(const Tick& tick) {
  if (eval_data_ == nullptr) {
    open_evaluation();
  } else {
    call(Exit::kDataMismatch, assay_loader_seek, eval_data_.get(), int64_t{0});
  }
  const uint32_t flags =
      recipe_.evaluation().select() == v1::Evaluation::EMA_LAST ? uint32_t{ASSAY_EVAL_EMA} : 0u;
  assay_eval_info sums = {};
  for (int64_t b = 0; b < eval_batches_; ++b) {
    const auto batch = next_batch(eval_data_.get(), nullptr);
    assay_eval_info info = {};
    info.struct_size = sizeof info;
    call(Exit::kCrashed, assay_trainer_eval, trainer_.get(), batch.data(), batch.size(), flags,
         &info);
    sums.samples += info.samples;
    sums.loss_sum += info.loss_sum;
    sums.top1 += info.top1;
    sums.top5 += info.top5;
    if (!tick(static_cast<double>(b + 1) / static_cast<double>(eval_batches_)))
      throw Error(Exit::kInterrupted, "stopped while evaluating");
  }
  const double n = static_cast<double>(std::max<int64_t>(1, sums.samples));
  return {{"accuracy", sums.top1 / n},
          {"top1", sums.top1 / n},
          {"top5", sums.top5 / n},
          {"loss", sums.loss_sum / n}};
}

void AssayTrial::save(const fs::path& file) {
  size_t size = 0;
  call(Exit::kCrashed, assay_loader_cursor, train_data_.get(), static_cast<void*>(nullptr),
       size_t{0}, &size);
  std::string cursor(size, '\0');
  call(Exit::kCrashed, assay_loader_cursor, train_data_.get(), static_cast<void*>(cursor.data()),
       cursor.size(), &size);
  call(Exit::kCrashed, assay_trainer_set_metadata, trainer_.get(), str(kCursor), str(cursor));
  call(Exit::kCrashed, assay_checkpoint_save, trainer_.get(), str(file.native()), uint32_t{0});
}

}  // namespace reciperun
