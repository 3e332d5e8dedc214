#include "tools/recipe_run/engine/assay_driver.h"

#include <algorithm>
#include <set>
#include <vector>

#include "tools/common/picture_reader.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/engine/benches.h"
#include "tools/recipe_run/engine/configuration.h"
#include "tools/recipe_run/engine/device_probe.h"
#include "tools/recipe_run/engine/recipe_objects.h"
#include "tools/recipe_run/engine/training_trial.h"
#include "tools/recipe_run/recipe/facts.h"

namespace reciperun {
namespace {

using namespace engine;  // NOLINT: this file is the engine's side

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
    if (!has_model(recipe)) return "no model '" + recipe.model().arch() + "' in the engine";
    const v1::Numerics::Compute compute = recipe.numerics().compute();
    if (on_cpu() && (compute == v1::Numerics::TF32 || compute == v1::Numerics::AMP_FP16))
      return precision_name(compute) + " needs a GPU: --device cuda:0";
    const std::string devices = std::to_string(recipe_devices(recipe));
    if (lacks_devices(recipe))
      return "needs " + devices + " devices, or --emulate-devices " + devices;
    return "";
  }

  // Under its defaults or as the recipe configures it.
  bool has_model(const v1::Recipe& recipe) const override {
    for (const bool defaults : {true, false}) {
      try {
        const std::string config = defaults ? "" : model_config(recipe.model());
        assay_model* model = nullptr;
        call(Exit::kUsage, assay_model_named, context_.get(), text(recipe.model().arch()),
             text(config), &model);
        const Model owner(model);
        return true;
      } catch (const Error&) {
      }
    }
    return false;
  }

  void check_model(const v1::Recipe& recipe) const override {
    if (!has_model(recipe)) return;
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

  data::Entry describe_data(const fs::path& folder) const override {
    assay_report* report = nullptr;
    const std::string path = folder.string();
    call(Exit::kDataMismatch, assay_dataset_report, text(path), &report);
    const auto manifest = parse_report(Report(report));
    data::Entry out;
    out.set_dataset(manifest.fields().at("dataset").string_value());
    out.set_licence(manifest.fields().at("licence").string_value());
    for (const auto& value : manifest.fields().at("splits").list_value().values()) {
      const auto& split = value.struct_value();
      data::Split& added = *out.add_split();
      added.set_name(split.fields().at("name").string_value());
      added.set_samples(static_cast<uint64_t>(integer(split.fields().at("records"))));
      added.set_content_sha256(split.fields().at("content_sha256").string_value());
    }
    return out;
  }

  void check(const v1::Recipe& recipe) override {
    check_init(recipe.model());
    check_devices(recipe);
    require_offered(recipe, devices_);
    if (const std::string missing = missing_data(recipe); !missing.empty())
      throw Error(Exit::kDataMismatch, missing);
    check_data(recipe);
    const auto trial = start(recipe, 0);
    const uint64_t expected = recipe.model().expect_parameters();
    if (expected != 0 && expected != trial->parameters()) {
      throw Error(Exit::kUsage, "the model has " + std::to_string(trial->parameters()) +
                                    " parameters, the recipe expects " + std::to_string(expected));
    }
    check_metrics(recipe, trial->metrics());
  }

  std::unique_ptr<TrainingTrial> start(const v1::Recipe& recipe, uint64_t seed) override {
    return make_training_trial(context_.get(), recipe, seed, devices_, !on_cpu());
  }

  std::unique_ptr<TrainingTrial> resume(const v1::Recipe& recipe, uint64_t seed,
                                        const fs::path& checkpoint) override {
    return make_training_trial(context_.get(), recipe, seed, devices_, !on_cpu(), checkpoint);
  }

  std::unique_ptr<BenchSession> bench(const v1::Recipe& recipe, const BenchPoint& point,
                                      const fs::path& checkpoint) override {
    if (point.devices != 1) throw Error(Exit::kUsage, "this engine runs on one device");
    require_offered(point.bench);
    if (point.bench.mode() == v1::Bench::TRAIN)
      return make_training_bench(context_.get(), recipe, point, !on_cpu());
    return make_inference_bench(context_.get(), recipe, point, checkpoint);
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
    if (has_model(recipe)) require_no_statistics(recipe);  // else why_not says that there is none
    devices_ = devices;
  }

  double probe() override {
    if (on_cpu()) return TrainerDriver::probe();
    if (!probe_) probe_ = std::make_unique<DeviceProbe>(context_.get());
    return probe_->seconds();
  }

  void cancel() override { assay_context_interrupt(context_.get()); }

 private:
  bool on_cpu() const { return device_.kind == ASSAY_DEVICE_CPU; }

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

  void require_no_statistics(const v1::Recipe& recipe) const {
    const Model model = new_model(context_.get(), recipe);
    const auto report = model_report(model.get());
    for (const auto& item : report.fields().at("variables").list_value().values()) {
      if (item.struct_value().fields().at("role").string_value() == "statistic")
        throw Error(Exit::kUsage, "models with batch norm cannot be trained on emulated devices");
    }
  }

  // What the recipe evaluates, and what its rows over trials are about, must be measured: said
  // before the training, not after it.
  static void check_metrics(const v1::Recipe& recipe, const std::vector<std::string>& measured) {
    if (measured.empty()) return;
    const auto require = [&](const std::string& metric, const std::string& path) {
      const std::string name = metric.substr(0, metric.find_first_of(".:"));
      if (std::find(measured.begin(), measured.end(), name) != measured.end()) return;
      throw Error(Exit::kUsage,
                  path + ": this engine does not measure '" + metric + "' of such a model",
                  "it measures " + join(measured, ", "));
    };
    for (const std::string& metric : recipe.evaluation().metric())
      require(metric, "evaluation.metric");
    for (const v1::Expect& expect : recipe.expect()) {
      if (kind_of(expect) == RowKind::kTrials)
        require(expect.metric(), "expect." + expect.id() + ".metric");
    }
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
    const auto list = parse_report(Report(report));
    for (const auto& item : list.fields().at("datasets").list_value().values())
      names.insert(item.struct_value().fields().at("name").string_value());
    return names;
  }

  assay_device_id device_;
  Context context_;
  uint32_t devices_ = 1;  // emulated
  std::unique_ptr<DeviceProbe> probe_;
};

}  // namespace

std::unique_ptr<TrainerDriver> make_assay_driver(const DriverOptions& options) {
  return std::make_unique<AssayDriver>(options);
}

}  // namespace reciperun
