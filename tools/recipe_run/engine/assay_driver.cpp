#include "tools/recipe_run/engine/assay_driver.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <vector>

#include "tools/common/picture_reader.h"
#include "tools/recipe_run/engine/configuration.h"
#include "tools/recipe_run/engine/folds.h"
#include "tools/recipe_run/engine/handles.h"
#include "tools/recipe_run/engine/micrograph_pipeline.h"
#include "tools/recipe_run/engine/pictures.h"
#include "tools/recipe_run/engine/pipeline.h"
#include "tools/recipe_run/engine/segmenter.h"
#include "tools/recipe_run/recipe/trials.h"

namespace reciperun {
namespace {

using namespace engine;  // NOLINT: this file is the engine's side
using Clock = std::chrono::steady_clock;

constexpr size_t kBatchTensors = 2;   // image and label
constexpr size_t kRawTensors = 3;     // bytes, label and placement
constexpr int kMicrographSide = 512;  // of the published slices, and so of their predictions
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

int64_t split_samples(const v1::Recipe& recipe, const v1::DataRef& data) {
  assay_report* report = nullptr;
  const std::string folder = folder_of(recipe, data).string();
  call(Exit::kUsage, assay_dataset_report, text(folder), &report);
  const auto manifest = parse_report(Report(report).get());
  for (const auto& value : manifest.fields().at("splits").list_value().values()) {
    const auto& split = value.struct_value().fields();
    if (split.at("name").string_value() == data.split()) return integer(split.at("records"));
  }
  throw Error(Exit::kDataMismatch,
              "data '" + data.id() + "': " + folder + " has no split '" + data.split() + "'");
}

void check_samples(const v1::DataRef& data, int64_t samples) {
  if (data.expect_samples() == 0 || data.expect_samples() == static_cast<uint64_t>(samples)) return;
  throw Error(Exit::kDataMismatch,
              "data '" + data.id() + "': split " + data.split() + " holds " +
                  std::to_string(samples) + " samples, the recipe expects " +
                  std::to_string(data.expect_samples()),
              "convert the data set again with dataset-convert");
}

// The records of a trial's fold; none, which means all, without folds.
Share share_of(const v1::Recipe& recipe, const v1::DataRef& data, uint64_t fold) {
  const int64_t samples = split_samples(recipe, data);
  check_samples(data, samples);
  if (!data.has_folds()) return {};
  FoldRecords records = fold_records(data.folds(), samples, fold);
  return {data.role() == "train" ? std::move(records.train) : std::move(records.held_out)};
}

// Where batches of training come from: a GPU takes images as bytes, where the pipeline allows it,
// and makes numbers of them itself.
struct Feeding {
  size_t tensors = kBatchTensors;  // of a batch
  std::string transform;           // "": the recipe's whole pipeline
  std::string raw_images;
};

Feeding feeding_for(const v1::DataRef& data, bool on_gpu) {
  const auto raw = on_gpu ? raw_pipeline(data) : std::nullopt;
  if (!raw) return {};
  return {kRawTensors, raw->transform, raw->raw_images};
}

Loader new_training_loader(const assay_context* context, const v1::Recipe& recipe,
                           const Feeding& feeding, LoaderConfig config) {
  if (!feeding.transform.empty()) config.transform = feeding.transform;
  return new_loader(context, recipe, training_data(recipe), config);
}

// With several `devices` each is played in turn: its own loader of its own shard, and one update
// from the mean of the gradients.
class AssayTrial : public TrainingTrial {
 public:
  AssayTrial(const assay_context* context, const v1::Recipe& recipe, uint64_t trial,
             uint32_t devices, bool on_gpu)
      : recipe_(recipe),
        model_(new_model(context, recipe)),
        feeding_(feeding_for(training_data(recipe), on_gpu)) {
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
    eval_ =
        new_loader(context, recipe, held_out,
                   evaluation_loader_config(recipe, held_out, share_of(recipe, held_out, fold)));
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
    do {  // micro-batches, one device after the other, until one of them updates
      if (!ahead_) prefetch();
      prefetch();  // beside the step
      info = {};
      info.struct_size = sizeof info;
      call(Exit::kCrashed, assay_trainer_step, trainer_.get(), nullptr, size_t{0}, &info);
    } while (info.micro_step > 0);
    step_ = info.step;
    return {info.step, info.samples, info.loss, info.learning_rate, seconds_since(start)};
  }

  std::map<std::string, double> evaluate(const Tick& tick) override {
    const uint32_t flags =
        recipe_.evaluation().select() == v1::Evaluation::EMA_LAST ? ASSAY_EVAL_EMA : 0;
    const int64_t samples = evaluated_samples();
    call(Exit::kCrashed, assay_loader_seek, eval_.get(), int64_t{0});
    double loss = 0, top1 = 0, top5 = 0, dice_loss = 0, cross_entropy = 0;
    int64_t seen = 0;
    const bool segments = segments_images();
    while (seen < samples) {
      const assay_tensor* batch[kBatchTensors] = {};
      call(Exit::kCrashed, assay_loader_next, eval_.get(), batch, kBatchTensors, nullptr);
      assay_eval_info info{};
      info.struct_size = sizeof info;
      call(Exit::kCrashed, assay_trainer_eval, trainer_.get(), batch, kBatchTensors, flags, &info);
      loss += info.loss_sum, top1 += info.top1, top5 += info.top5;
      if (segments) dice_loss += scalar("dice_loss"), cross_entropy += scalar("cross_entropy");
      seen += info.samples;
      if (!tick(static_cast<double>(seen) / static_cast<double>(samples)))
        throw Error(Exit::kInterrupted, "stopped while evaluating");
    }
    const auto n = static_cast<double>(seen);
    if (segments)
      return {
          {"dice", 1 - dice_loss / n}, {"cross_entropy", cross_entropy / n}, {"loss", loss / n}};
    return {{"accuracy", top1 / n}, {"top1", top1 / n}, {"top5", top5 / n}, {"loss", loss / n}};
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
        image.name = "held-out-" + std::to_string(images.size() + 1);
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
    return std::min(all, static_cast<int64_t>(evaluation.batches()) * evaluation.batch());
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
  Length length_;
  uint64_t parameters_ = 0;
  int64_t step_ = 0;
  size_t turn_ = 0;     // batches taken from the loaders
  bool ahead_ = false;  // one batch more than was trained
  std::string cursor_;  // before that batch
};

// Steps of training on batches of the loader.
class TrainingBench : public BenchSession {
 public:
  TrainingBench(const assay_context* context, const v1::Recipe& recipe, const BenchPoint& point,
                bool on_gpu)
      : batch_(point.batch),
        model_(new_model(context, recipe)),
        feeding_(feeding_for(training_data(recipe), on_gpu)),
        with_loading_(point.bench.timing_span() == "load+compute") {
    if (point.bench.input() != "real") {
      throw Error(Exit::kUsage,
                  "bench '" + point.bench.id() + "': training is measured on real input",
                  "input: \"real\"");
    }
    const v1::DataRef& data = training_data(recipe);
    loader_ = new_training_loader(context, recipe, feeding_,
                                  training_loader_config(recipe, data, 1, batch_));
    const auto report = model_report(model_.get());
    const std::string config = trainer_config(
        recipe, variables_of(report), training_length(recipe, loader_samples(loader_.get())), 1,
        batch_, 1, feeding_.raw_images);
    assay_trainer* trainer = nullptr;
    call(Exit::kUsage, assay_trainer_create, model_.get(), nullptr, text(config), &trainer);
    trainer_.reset(trainer);
  }
  int64_t items_per_batch() const override { return batch_; }
  double run_batch() override {
    auto start = Clock::now();
    const assay_tensor* batch[kRawTensors] = {};
    for (; ahead_ < 2; ++ahead_) {
      call(Exit::kCrashed, assay_loader_next, loader_.get(), batch, feeding_.tensors, nullptr);
      call(Exit::kCrashed, assay_trainer_prefetch, trainer_.get(), batch, feeding_.tensors);
    }
    if (!with_loading_) start = Clock::now();
    call(Exit::kCrashed, assay_trainer_step, trainer_.get(), nullptr, size_t{0}, nullptr);
    --ahead_;
    return seconds_since(start);
  }

 private:
  int64_t batch_;
  Model model_;
  Feeding feeding_;
  Trainer trainer_;
  Loader loader_;
  bool with_loading_;
  int ahead_ = 0;  // prefetched batches
};

// Forward passes, on one batch of zeros (their time does not depend on the pixels) or on real
// batches of a loader.
class InferenceBench : public BenchSession {
 public:
  InferenceBench(const assay_context* context, const v1::Recipe& recipe, const BenchPoint& point,
                 const fs::path& checkpoint)
      : batch_(point.batch), model_(new_model(context, recipe)) {
    const bool real = point.bench.input() == "real";
    if (!real && point.bench.input() != "synthetic") {
      throw Error(
          Exit::kUsage,
          "bench '" + point.bench.id() + "': inference is measured on synthetic or real input",
          "input: \"synthetic\" or \"real\"");
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
    with_loading_ = point.bench.timing_span() == "load+compute";
    if (real) {
      const v1::DataRef& data = bench_data(recipe);
      loader_ = new_loader(context, recipe, data, bench_loader_config(recipe, data, batch_));
    } else {
      make_input(context);
    }
  }
  int64_t items_per_batch() const override { return batch_; }
  double run_batch() override {
    auto start = Clock::now();
    const assay_tensor* input = input_.get();
    if (loader_) call(Exit::kCrashed, assay_loader_next, loader_.get(), &input, size_t{1}, nullptr);
    if (!with_loading_) start = Clock::now();
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
  Loader loader_;
  bool with_loading_ = false;
};

// "cpu", "cuda:0".
assay_device_id device_of(const std::string& name) {
  if (name == "cpu") return {ASSAY_DEVICE_CPU, 0};
  const std::string kind = "cuda:";
  const std::string number = name.starts_with(kind) ? name.substr(kind.size()) : "";
  const bool digits = !number.empty() && number.size() <= 4 &&
                      number.find_first_not_of("0123456789") == std::string::npos;
  if (!digits) throw Error(Exit::kUsage, "there is no device '" + name + "'", "cpu, or cuda:0");
  return {ASSAY_DEVICE_CUDA, std::stoi(number)};
}

Context new_context(const DriverOptions& wanted, const assay_device_id& device) {
  assay_context_options options{};
  options.struct_size = sizeof options;
  options.n_threads = static_cast<int32_t>(wanted.threads);
  assay_host host{};
  host.struct_size = sizeof host;
#ifdef ASSAY_OPENCV
  host.read_image = assay::tools::read_pictures;
#endif
  assay_context* context = nullptr;
  call(Exit::kNotRun, assay_context_create, &options, &host, &device, size_t{1}, &context);
  return Context(context);
}

class AssayDriver : public TrainerDriver {
 public:
  explicit AssayDriver(const DriverOptions& options)
      : device_(device_of(options.device)), context_(new_context(options, device_)) {}

  EngineInfo info() const override {
    EngineInfo info{"assay " + string(assay_version_string())};
    if (on_cpu()) return info;
    assay_device_info device{};
    device.struct_size = sizeof device;
    call(Exit::kCrashed, assay_device_enum, static_cast<size_t>(device_.index) + 1, &device);
    info.gpu = string(device.name);
    info.libraries = string(device.driver);
    return info;
  }

  std::string why_not(const v1::Recipe& recipe) const override {
    if (!knows_model(recipe.model()))
      return "no model '" + recipe.model().arch() + "' in the engine";
    const v1::Numerics::Compute compute = recipe.numerics().compute();
    if (on_cpu() && (compute == v1::Numerics::TF32 || compute == v1::Numerics::AMP_FP16))
      return precision_name(compute) + " needs a GPU: --device cuda:0";
    const std::string devices = std::to_string(recipe_devices(recipe));
    if (lacks_devices(recipe))
      return "needs " + devices + " devices, or --emulate-devices " + devices;
    return "";
  }

  void check_model(const v1::Recipe& recipe) const override {
    if (!knows_model(recipe.model())) return;
    new_model(context_.get(), recipe);
  }

  std::string missing_data(const v1::Recipe& recipe) const override {
    for (const v1::DataRef& data : recipe.data()) {
      std::error_code ignored;
      const std::string folder = folder_of(recipe, data).string();
      if (fs::is_directory(folder, ignored)) continue;
      const std::string missing =
          "there is no folder " + folder + " with the data set '" + data.lock() + "'";
      if (!convertible().contains(data.lock()))
        return missing + "; this engine has no conversion that makes it";
      return missing + "; make it with: dataset-convert " + data.lock() + " --to " + folder +
             " ('dataset-convert --help' says where its source comes from)";
    }
    return "";
  }

  void check(const v1::Recipe& recipe) override {
    check_init(recipe.model());
    check_devices(recipe);
    if (const std::string missing = missing_data(recipe); !missing.empty())
      throw Error(Exit::kDataMismatch, missing);
    const AssayTrial trial(context_.get(), recipe, 0, devices_, !on_cpu());
    const uint64_t expected = recipe.model().expect_parameters();
    if (expected != 0 && expected != trial.parameters()) {
      throw Error(Exit::kUsage, "the model has " + std::to_string(trial.parameters()) +
                                    " parameters, the recipe expects " + std::to_string(expected));
    }
  }

  std::unique_ptr<TrainingTrial> start(const v1::Recipe& recipe, uint64_t seed) override {
    return std::make_unique<AssayTrial>(context_.get(), recipe, seed, devices_, !on_cpu());
  }

  std::unique_ptr<TrainingTrial> resume(const v1::Recipe& recipe, uint64_t seed,
                                        const fs::path& checkpoint) override {
    auto trial = std::make_unique<AssayTrial>(context_.get(), recipe, seed, devices_, !on_cpu());
    trial->resume(checkpoint);
    return trial;
  }

  std::unique_ptr<BenchSession> bench(const v1::Recipe& recipe, const BenchPoint& point,
                                      const fs::path& checkpoint) override {
    if (point.devices != 1) throw Error(Exit::kUsage, "this engine runs on one device");
    if (point.bench.mode() == v1::Bench::TRAIN)
      return std::make_unique<TrainingBench>(context_.get(), recipe, point, !on_cpu());
    return std::make_unique<InferenceBench>(context_.get(), recipe, point, checkpoint);
  }

  int64_t predict(const v1::Recipe& recipe, const PredictTask& task, const Tick& tick) override {
    const v1::DataRef& data = evaluation_data(recipe);
    if (!has_micrograph_pipeline(data))
      throw Error(Exit::kUsage, "'" + recipe.id() + "' classifies images: there is nothing to draw",
                  "the recipes of unet_medical label pixels");
    if (!can_write_pictures())
      throw Error(Exit::kUsage, "this program was built without OpenCV and writes no pictures",
                  "install libopencv-dev and build it again");
    const Model model = new_model(context_.get(), recipe);
    call(Exit::kDataMismatch, assay_model_load_weights, model.get(), text(task.checkpoint.string()),
         text("checkpoint"), text(""), uint32_t{0}, nullptr);
    const std::vector<SegmentedImage> images =
        task.source.empty() ? test_split(recipe, model.get(), tick)
                            : segment_files(context_.get(), model.get(), recipe, task.source, tick);
    write_predictions(task.target, images, kMicrographSide);
    return static_cast<int64_t>(images.size());
  }

  // Statistics of batch norm would follow the devices' batches one after another, where each device
  // keeps its own: such models are refused.
  void emulate(const v1::Recipe& recipe, uint32_t devices) override {
    if (devices != recipe_devices(recipe)) {
      throw Error(Exit::kUsage,
                  "'" + recipe.id() + "' trains on " + std::to_string(recipe_devices(recipe)) +
                      " devices, not on " + std::to_string(devices),
                  "--emulate-devices " + std::to_string(recipe_devices(recipe)));
    }
    const Model model = new_model(context_.get(), recipe);
    const auto report = model_report(model.get());
    for (const auto& item : report.fields().at("variables").list_value().values()) {
      if (item.struct_value().fields().at("role").string_value() == "statistic")
        throw Error(Exit::kUsage, "models with batch norm cannot be trained on emulated devices");
    }
    devices_ = devices;
  }

  void cancel() override { assay_context_interrupt(context_.get()); }

 private:
  bool on_cpu() const { return device_.kind == ASSAY_DEVICE_CPU; }

  std::vector<SegmentedImage> test_split(const v1::Recipe& recipe, const assay_model* model,
                                         const Tick& tick) const {
    const fs::path folder = folder_of(recipe, evaluation_data(recipe));
    try {
      return segment_split(context_.get(), model, recipe, folder, "test", tick);
    } catch (const Error& error) {
      if (error.exit_code() != Exit::kDataMismatch) throw;
      throw Error(Exit::kDataMismatch, error.what(), "name the pictures to label with --from");
    }
  }

  // Each architecture draws its first weights in one way.
  static void check_init(const v1::Model& model) {
    const std::string offered = model.arch() == "unet_medical" ? "glorot_uniform"
                                : model.arch() == "resnet50"   ? "he_normal_fan_in"
                                                               : "he_normal_fan_out";
    if (model.init().empty() || model.init() == offered) return;
    throw Error(
        Exit::kUsage,
        "model.init '" + model.init() + "' is not offered by this engine for " + model.arch(),
        offered);
  }

  // Under its defaults or as the recipe configures it.
  bool knows_model(const v1::Model& recipe) const {
    for (const bool defaults : {true, false}) {
      try {
        const std::string config = defaults ? "" : model_config(recipe);
        assay_model* model = nullptr;
        call(Exit::kUsage, assay_model_named, context_.get(), text(recipe.arch()), text(config),
             &model);
        const Model owner(model);
        return true;
      } catch (const Error&) {
      }
    }
    return false;
  }

  // Benches take the devices they name.
  bool lacks_devices(const v1::Recipe& recipe) const {
    return recipe_devices(recipe) != devices_ && recipe.trials().count() != 0;
  }

  void check_devices(const v1::Recipe& recipe) const {
    if (!lacks_devices(recipe)) return;
    const std::string devices = std::to_string(recipe_devices(recipe));
    throw Error(Exit::kUsage,
                "'" + recipe.id() + "' trains on " + devices + " devices, here is one",
                "--emulate-devices " + devices + " plays them one after another");
  }

  // Names of the data sets that can be made here.
  static std::set<std::string> convertible() {
    assay_report* report = nullptr;
    call(Exit::kCrashed, assay_dataset_list, &report);
    std::set<std::string> names;
    const auto list = parse_report(Report(report).get());
    for (const auto& item : list.fields().at("datasets").list_value().values())
      names.insert(item.struct_value().fields().at("name").string_value());
    return names;
  }

  assay_device_id device_;
  Context context_;
  uint32_t devices_ = 1;  // emulated
};

}  // namespace

std::unique_ptr<TrainerDriver> make_assay_driver(const DriverOptions& options) {
  return std::make_unique<AssayDriver>(options);
}

}  // namespace reciperun
