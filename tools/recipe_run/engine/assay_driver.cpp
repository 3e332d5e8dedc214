#include "tools/recipe_run/engine/assay_driver.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <vector>

#include "tools/recipe_run/engine/configuration.h"
#include "tools/recipe_run/engine/handles.h"

namespace reciperun {
namespace {

using namespace engine;  // NOLINT: this file is the engine's side
using Clock = std::chrono::steady_clock;

constexpr int kBatchTensors = 2;  // image and label
constexpr std::string_view kCursorKey = "assay.cursor";

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Model new_model(const assay_context* context, const v1::Recipe& recipe) {
  assay_model* model = nullptr;
  const std::string config = model_config(recipe.model());
  try {
    call(Exit::kUsage, assay_model_named, context, text(recipe.model().arch()), text(config),
         &model);
  } catch (const Error& error) {  // a name it does not know is the recipe's fault, not the data's
    throw Error(Exit::kUsage, error.what(), error.hint());
  }
  return Model(model);
}

google::protobuf::Struct model_report(const assay_model* model) {
  assay_report* report = nullptr;
  call(Exit::kCrashed, assay_model_report, model, &report);
  return parse_report(Report(report).get());
}

// The trained variables; those beside a running mean belong to a normalisation.
std::vector<Variable> variables_of(const google::protobuf::Struct& report) {
  std::vector<Variable> variables;
  std::set<std::string> normalisations;
  for (const auto& item : report.fields().at("variables").list_value().values()) {
    const auto& fields = item.struct_value().fields();
    const std::string& name = fields.at("name").string_value();
    if (name.ends_with(".running_mean")) normalisations.insert(name.substr(0, name.rfind('.')));
    if (fields.at("role").string_value() == "value") variables.push_back({name, false});
  }
  for (Variable& variable : variables) {
    const size_t dot = variable.name.rfind('.');
    variable.normalisation =
        dot != std::string::npos && normalisations.contains(variable.name.substr(0, dot));
  }
  return variables;
}

// Reports print 64-bit integers as text.
int64_t integer(const google::protobuf::Value& value) {
  return value.has_string_value() ? std::stoll(value.string_value())
                                  : static_cast<int64_t>(value.number_value());
}

fs::path folder_of(const v1::Recipe& recipe, const v1::DataRef& data) {
  return fs::path(recipe.io().data_root()) / data.lock();
}

Loader new_loader(const assay_context* context, const v1::Recipe& recipe, const v1::DataRef& data,
                  const LoaderConfig& config) {
  assay_loader* loader = nullptr;
  const std::string folder = folder_of(recipe, data).string();
  call(Exit::kUsage, assay_loader_create, context, text(folder), text(data.split()),
       text(config.loader), text(config.transform), &loader);
  return Loader(loader);
}

int64_t loader_samples(const assay_loader* loader) {
  assay_report* report = nullptr;
  call(Exit::kCrashed, assay_loader_report, loader, &report);
  return integer(parse_report(Report(report).get()).fields().at("samples"));
}

void check_samples(const v1::DataRef& data, int64_t samples) {
  if (data.expect_samples() == 0 || data.expect_samples() == static_cast<uint64_t>(samples)) return;
  throw Error(Exit::kDataMismatch,
              "data '" + data.id() + "': split " + data.split() + " holds " +
                  std::to_string(samples) + " samples, the recipe expects " +
                  std::to_string(data.expect_samples()),
              "convert the data set again with dataset-convert");
}

class AssayTrial : public TrainingTrial {
 public:
  AssayTrial(const assay_context* context, const v1::Recipe& recipe, uint64_t seed)
      : recipe_(recipe), model_(new_model(context, recipe)) {
    const v1::DataRef& data = training_data(recipe);
    const int64_t batch = recipe.training().batch_per_device();
    train_ = new_loader(context, recipe, data, training_loader_config(recipe, data, seed, batch));
    const int64_t samples = loader_samples(train_.get());
    check_samples(data, samples);
    length_ = training_length(recipe, samples);
    const auto report = model_report(model_.get());
    parameters_ = static_cast<uint64_t>(integer(report.fields().at("parameters")));
    const std::string config = trainer_config(recipe, variables_of(report), length_, seed, 0);
    assay_trainer* trainer = nullptr;
    call(Exit::kUsage, assay_trainer_create, model_.get(), nullptr, text(config), &trainer);
    trainer_.reset(trainer);
    const v1::DataRef& held_out = evaluation_data(recipe);
    eval_ = new_loader(context, recipe, held_out, evaluation_loader_config(recipe, held_out));
    check_samples(held_out, loader_samples(eval_.get()));
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
    call(Exit::kTampered, assay_loader_restore, train_.get(), cursor.data, cursor.size);
  }

  int64_t step() const override { return step_; }
  int64_t total_steps() const override { return length_.total_steps; }
  double steps_per_epoch() const override { return static_cast<double>(length_.steps_per_epoch); }
  uint64_t parameters() const override { return parameters_; }

  StepResult run_step() override {
    const auto start = Clock::now();
    assay_step_info info{};
    do {  // micro-batches, until one of them updates
      const assay_tensor* batch[kBatchTensors] = {};
      call(Exit::kCrashed, assay_loader_next, train_.get(), batch, size_t{kBatchTensors}, nullptr);
      info = {};
      info.struct_size = sizeof info;
      call(Exit::kCrashed, assay_trainer_step, trainer_.get(), batch, size_t{kBatchTensors}, &info);
    } while (info.micro_step > 0);
    step_ = info.step;
    return {info.step, info.samples, info.loss, info.learning_rate, seconds_since(start)};
  }

  std::map<std::string, double> evaluate(const Tick& tick) override {
    const uint32_t flags =
        recipe_.evaluation().select() == v1::Evaluation::EMA_LAST ? ASSAY_EVAL_EMA : 0;
    const int64_t samples = loader_samples(eval_.get());
    call(Exit::kCrashed, assay_loader_seek, eval_.get(), int64_t{0});
    double loss = 0, top1 = 0, top5 = 0;
    int64_t seen = 0;
    while (seen < samples) {
      const assay_tensor* batch[kBatchTensors] = {};
      call(Exit::kCrashed, assay_loader_next, eval_.get(), batch, size_t{kBatchTensors}, nullptr);
      assay_eval_info info{};
      info.struct_size = sizeof info;
      call(Exit::kCrashed, assay_trainer_eval, trainer_.get(), batch, size_t{kBatchTensors}, flags,
           &info);
      loss += info.loss_sum, top1 += info.top1, top5 += info.top5;
      seen += info.samples;
      if (!tick(static_cast<double>(seen) / static_cast<double>(samples)))
        throw Error(Exit::kInterrupted, "stopped while evaluating");
    }
    const auto n = static_cast<double>(seen);
    return {{"accuracy", top1 / n}, {"top1", top1 / n}, {"top5", top5 / n}, {"loss", loss / n}};
  }

  void save(const fs::path& file) override {
    size_t size = 0;
    call(Exit::kCrashed, assay_loader_cursor, train_.get(), nullptr, size_t{0}, &size);
    std::string cursor(size, '\0');
    call(Exit::kCrashed, assay_loader_cursor, train_.get(), static_cast<void*>(cursor.data()),
         cursor.size(), &size);
    call(Exit::kCrashed, assay_trainer_set_metadata, trainer_.get(), text(kCursorKey),
         text(cursor));
    call(Exit::kCrashed, assay_checkpoint_save, trainer_.get(), text(file.string()), uint32_t{0});
  }

 private:
  v1::Recipe recipe_;
  Model model_;
  Trainer trainer_;
  Loader train_, eval_;
  Length length_;
  uint64_t parameters_ = 0;
  int64_t step_ = 0;
};

// Steps of training on batches of the loader.
class TrainingBench : public BenchSession {
 public:
  TrainingBench(const assay_context* context, const v1::Recipe& recipe, const BenchPoint& point)
      : batch_(point.batch),
        model_(new_model(context, recipe)),
        with_loading_(point.bench.timing_span() == "load+compute") {
    if (point.bench.input() != "real") {
      throw Error(Exit::kUsage,
                  "bench '" + point.bench.id() + "': training is measured on real input",
                  "input: \"real\"");
    }
    const v1::DataRef& data = training_data(recipe);
    loader_ = new_loader(context, recipe, data, training_loader_config(recipe, data, 1, batch_));
    const auto report = model_report(model_.get());
    const std::string config =
        trainer_config(recipe, variables_of(report),
                       training_length(recipe, loader_samples(loader_.get())), 1, batch_);
    assay_trainer* trainer = nullptr;
    call(Exit::kUsage, assay_trainer_create, model_.get(), nullptr, text(config), &trainer);
    trainer_.reset(trainer);
  }
  int64_t items_per_batch() const override { return batch_; }
  double run_batch() override {
    auto start = Clock::now();
    const assay_tensor* batch[kBatchTensors] = {};
    call(Exit::kCrashed, assay_loader_next, loader_.get(), batch, size_t{kBatchTensors}, nullptr);
    if (!with_loading_) start = Clock::now();
    call(Exit::kCrashed, assay_trainer_step, trainer_.get(), batch, size_t{kBatchTensors}, nullptr);
    return seconds_since(start);
  }

 private:
  int64_t batch_;
  Model model_;
  Trainer trainer_;
  Loader loader_;
  bool with_loading_;
};

// Forward passes on one batch of zeros: inference time does not depend on the pixels.
class InferenceBench : public BenchSession {
 public:
  InferenceBench(const assay_context* context, const v1::Recipe& recipe, const BenchPoint& point,
                 const fs::path& checkpoint)
      : batch_(point.batch), model_(new_model(context, recipe)) {
    if (point.bench.input() != "synthetic") {
      throw Error(Exit::kUsage,
                  "bench '" + point.bench.id() + "': inference is measured on synthetic input",
                  "input: \"synthetic\"");
    }
    if (checkpoint.empty()) {
      call(Exit::kCrashed, assay_model_initialize, model_.get(), uint64_t{1});
    } else {
      call(Exit::kTampered, assay_model_load_weights, model_.get(), text(checkpoint.string()),
           text("checkpoint"), text(""), uint32_t{0}, nullptr);
    }
    const std::string config = predictor_config(recipe, batch_);
    assay_predictor* predictor = nullptr;
    call(Exit::kUsage, assay_predictor_create, model_.get(), text(config), &predictor);
    predictor_.reset(predictor);
    assay_slot* slot = nullptr;
    call(Exit::kCrashed, assay_slot_create, predictor, &slot);
    slot_.reset(slot);
    make_input(context);
  }
  int64_t items_per_batch() const override { return batch_; }
  double run_batch() override {
    const auto start = Clock::now();
    const assay_tensor* input = input_.get();
    assay_tensor* logits = nullptr;
    call(Exit::kCrashed, assay_predictor_run, predictor_.get(), slot_.get(), &input, size_t{1},
         &logits, size_t{1});
    const double seconds = seconds_since(start);
    assay_tensor_release(logits);
    return seconds;
  }

 private:
  void make_input(const assay_context* context) {
    const auto report = model_report(model_.get());
    std::vector<int64_t> shape{batch_};
    const auto& image = report.fields().at("inputs").list_value().values(0).struct_value();
    for (const auto& size : image.fields().at("sample_shape").list_value().values())
      shape.push_back(integer(size));
    assay_tensor* tensor = nullptr;
    call(Exit::kCrashed, assay_tensor_new, context, assay_device_id{ASSAY_DEVICE_CPU, 0},
         assay_dtype{ASSAY_F32}, shape.data(), static_cast<int32_t>(shape.size()), &tensor);
    input_.reset(tensor);
  }

  int64_t batch_;
  Model model_;
  Predictor predictor_;
  Slot slot_;
  Tensor input_;
};

class AssayDriver : public TrainerDriver {
 public:
  explicit AssayDriver(uint32_t threads) {
    assay_context_options options{};
    options.struct_size = sizeof options;
    options.n_threads = static_cast<int32_t>(threads);
    assay_context* context = nullptr;
    call(Exit::kUsage, assay_context_create, &options, nullptr, nullptr, size_t{0}, &context);
    context_.reset(context);
  }

  EngineInfo info() const override { return {"assay " + string(assay_version_string()), ""}; }

  std::string why_not(const v1::Recipe& recipe) const override {
    try {
      new_model(context_.get(), recipe);
    } catch (const Error&) {
      return "no model '" + recipe.model().arch() + "' of this configuration in the engine";
    }
    const v1::Numerics::Compute compute = recipe.numerics().compute();
    if (compute == v1::Numerics::TF32 || compute == v1::Numerics::AMP_FP16)
      return precision_name(compute) + " needs a GPU";
    const uint32_t devices = std::max(1u, recipe.topology().nodes()) *
                             std::max(1u, recipe.topology().devices_per_node());
    if (devices > 1 && recipe.trials().count() > 0)
      return "needs " + std::to_string(devices) + " devices";
    return "";
  }

  void check(const v1::Recipe& recipe) override {
    const std::string& init = recipe.model().init();
    if (!init.empty() && init != "he_normal_fan_out") {
      throw Error(Exit::kUsage, "model.init '" + init + "' is not offered by this engine",
                  "he_normal_fan_out");
    }
    check_folder(recipe, training_data(recipe));
    check_folder(recipe, evaluation_data(recipe));
    const AssayTrial trial(context_.get(), recipe, 0);
    const uint64_t expected = recipe.model().expect_parameters();
    if (expected != 0 && expected != trial.parameters()) {
      throw Error(Exit::kUsage, "the model has " + std::to_string(trial.parameters()) +
                                    " parameters, the recipe expects " + std::to_string(expected));
    }
  }

  std::unique_ptr<TrainingTrial> start(const v1::Recipe& recipe, uint64_t seed) override {
    return std::make_unique<AssayTrial>(context_.get(), recipe, seed);
  }

  std::unique_ptr<TrainingTrial> resume(const v1::Recipe& recipe, uint64_t seed,
                                        const fs::path& checkpoint) override {
    auto trial = std::make_unique<AssayTrial>(context_.get(), recipe, seed);
    trial->resume(checkpoint);
    return trial;
  }

  std::unique_ptr<BenchSession> bench(const v1::Recipe& recipe, const BenchPoint& point,
                                      const fs::path& checkpoint) override {
    if (point.devices != 1) throw Error(Exit::kUsage, "this engine runs on one device");
    if (point.bench.mode() == v1::Bench::TRAIN)
      return std::make_unique<TrainingBench>(context_.get(), recipe, point);
    return std::make_unique<InferenceBench>(context_.get(), recipe, point, checkpoint);
  }

  void cancel() override { assay_context_interrupt(context_.get()); }

 private:
  static void check_folder(const v1::Recipe& recipe, const v1::DataRef& data) {
    std::error_code ignored;
    const fs::path folder = folder_of(recipe, data);
    if (fs::is_directory(folder, ignored)) return;
    throw Error(Exit::kDataMismatch,
                "data '" + data.id() + "': there is no folder " + folder.string(),
                "make it with: dataset-convert " + data.lock() + " --to " + folder.string());
  }

  Context context_;
};

}  // namespace

std::unique_ptr<TrainerDriver> make_assay_driver(uint32_t threads) {
  return std::make_unique<AssayDriver>(threads);
}

}  // namespace reciperun
