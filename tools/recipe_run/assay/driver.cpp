// AssayDriver answers the questions of TrainerDriver by calls of the C interface and their reports.
#include "tools/recipe_run/assay/driver.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "tools/common/picture_reader.h"
#include "tools/recipe_run/assay/bench.h"
#include "tools/recipe_run/assay/pipeline.h"
#include "tools/recipe_run/assay/pretrained.h"
#include "tools/recipe_run/assay/ranks.h"
#include "tools/recipe_run/assay/trial.h"
#include "tools/recipe_run/recipe/facts.h"
#include "tools/recipe_run/util/text.h"

namespace reciperun {
namespace {

using namespace engine;  // NOLINT: this file is the engine's side

// What a conversion of text is told beyond its folders: the pieces that words are made of, how
// windows are cut, and that documents are held out if the recipe evaluates them. How the text is
// laid out is for who has it to say.
std::string settings_of(const v1::Recipe& recipe, const v1::DataRef& data) {
  std::string settings;
  for (const v1::Stage& stage : data.pipeline()) {
    if (stage.op() != "tokens") continue;
    settings += " --set vocabulary=FILE";
    for (const auto& [key, value] : std::map(stage.arg().begin(), stage.arg().end()))
      if (key != "packed") settings += fmt::format(" --set {}={}", key, value);  // a loader's
    const bool holds_out =
        std::any_of(recipe.data().begin(), recipe.data().end(), [&](const v1::DataRef& other) {
          return other.lock() == data.lock() && other.split() == "test";
        });
    if (holds_out) settings += " --set held_out=20";
  }
  return settings + (data.lock().ends_with("_v2.0") ? " --set version=2.0" : "");
}

Context new_context(uint32_t threads, const assay_device_id& device) {
  assay_context_options options{};
  options.struct_size = sizeof options;
  options.n_threads = static_cast<int32_t>(threads);
  assay_host host{};
  host.struct_size = sizeof host;
#ifdef ASSAY_OPENCV
  host.read_image = assay::tools::read_pictures;
#endif
  return made<Context>(Exit::kNotRun, assay_context_create, &options, &host, &device, size_t{1});
}

class AssayDriver : public TrainerDriver {
 public:
  AssayDriver(const std::string& device, uint32_t threads)
      : device_(device_of(device)), context_(new_context(threads, device_)) {}
  ~AssayDriver() override {
    if (ranks_ && ranks_->conducts()) dismiss(*ranks_);
  }
  AssayDriver(const AssayDriver&) = delete;
  AssayDriver& operator=(const AssayDriver&) = delete;

  EngineInfo info() const override {
    EngineInfo info{"assay " + string(assay_version_string()), rank_of_process().world};
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
    if (on_cpu() && needs_gpu(recipe))
      return precision_name(recipe.numerics().compute()) + " needs a GPU: --device cuda:0";
    return lacks_devices(recipe) ? fmt::format("needs {}: {}", device_count(devices_of(recipe)),
                                               advice_on_devices(recipe))
                                 : "";
  }

  // Under its defaults or as the recipe configures it.
  bool has_model(const v1::Recipe& recipe) const override {
    for (const bool defaults : {true, false}) {
      try {
        const std::string config = defaults ? "" : model_config(recipe.model());
        made<Model>(Exit::kUsage, assay_model_named, context_.get(), text(recipe.model().arch()),
                    text(config));
        return true;
      } catch (const Error&) {
      }
    }
    return false;
  }

  void check_offered(const v1::Recipe& recipe) const override {
    if (!has_model(recipe)) return;
    const int64_t layers = encoder_layers(new_model(context_.get(), recipe).get());
    require_offered(recipe, devices_);
    for (const v1::DataRef& data : recipe.data()) transform_config(data);
    for (const v1::Recipe& phase : phases_of(recipe))
      trainer_config(phase, training_length(phase, samples_per_step(phase, devices_), devices_),
                     layers, 0, 0, devices_);
    for (const v1::Bench& bench : recipe.bench()) require_offered(bench);
  }

  std::string missing_data(const v1::Recipe& recipe) const override {
    for (const v1::DataRef& data : recipe.data()) {
      std::error_code ignored;
      const std::string folder = folder_of(recipe, data).string();
      if (fs::is_directory(folder, ignored)) continue;
      const std::string missing =
          fmt::format("there is no folder {} with the data set '{}'; ", folder, data.lock());
      if (const fs::path root = recipe.io().data_root(); is_there(root / "dataset.json"))
        return missing + root.string() + " is itself a data set: name the folder that holds it";
      return missing +
             (conversion_of(data.lock()).empty()
                  ? fmt::format("no conversion has this name; if one that 'dataset-convert --list' "
                                "shows fits, let it write there with --to {}",
                                folder)
                  : fmt::format("make it with: dataset-convert {} --from FOLDER --to {}{} "
                                "('dataset-convert --list' says what FOLDER holds)",
                                conversion_of(data.lock()), folder, settings_of(recipe, data)));
    }
    return recipe.trials().count() > 0 ? missing_weights(recipe) : "";  // time needs none
  }

  data::Entry describe_data(const fs::path& folder) const override {
    const std::string path = folder.string();
    const Struct manifest = report_of(Exit::kDataMismatch, assay_dataset_report, text(path));
    data::Entry out;
    out.set_dataset(name_of(manifest, "dataset"));
    out.set_licence(name_of(manifest, "licence"));
    for (const Struct& split : objects_of(manifest, "splits")) {
      data::Split& added = *out.add_split();
      added.set_name(name_of(split));
      added.set_samples(static_cast<uint64_t>(integer_of(split, "records")));
      added.set_content_sha256(name_of(split, "content_sha256"));
    }
    return out;
  }

  uint64_t check(const v1::Recipe& recipe) override {
    require(!lacks_devices(recipe),
            fmt::format("'{}' trains on {}, here {}", recipe.id(), device_count(devices_of(recipe)),
                        devices_ == 1 ? "is one" : fmt::format("are {}", devices_)),
            advice_on_devices(recipe));
    check_offered(recipe);
    if (const std::string missing = missing_data(recipe); !missing.empty())
      throw Error(Exit::kDataMismatch, missing);
    check_data(recipe);
    const Struct model = model_report(new_model(context_.get(), recipe).get());
    check_init(recipe.model(), model);
    check_vocabulary(recipe, model);
    const auto trial = start(recipe, 0);
    const uint64_t expected = recipe.model().expect_parameters();
    require(expected == 0 || expected == trial->parameters(),
            fmt::format("the model has {} parameters, the recipe expects {}", trial->parameters(),
                        expected));
    check_metrics(recipe, trial->metrics());
    return trial->parameters();
  }

  std::unique_ptr<TrainingTrial> start(const v1::Recipe& recipe, uint64_t seed) override {
    return make_trial(recipe, seed, {});
  }

  std::unique_ptr<TrainingTrial> resume(const v1::Recipe& recipe, uint64_t seed,
                                        const fs::path& checkpoint) override {
    return make_trial(recipe, seed, checkpoint);
  }

  std::unique_ptr<BenchSession> bench(const v1::Recipe& recipe, const BenchTask& task,
                                      const fs::path& checkpoint) override {
    const v1::Bench& bench = *find_bench(recipe, task.bench);
    require_offered(bench);
    if (task.devices == 1)
      return make_bench(context_.get(), recipe, bench, task.batch, checkpoint, !on_cpu(), nullptr);
    require(ranks_ && task.devices == ranks_->world(),
            fmt::format("the bench is of {}", device_count(task.devices)),
            fmt::format("mpirun -np {}", task.devices));
    return conducted_bench(*ranks_, bench_maker(recipe), task.bench, task.batch);
  }

  bool conducts(const v1::Recipe& recipe, double timeout_seconds) override {
    const RankPlace place = rank_of_process();
    require_known_launcher();
    if (place.world == 1) return true;
    ranks_.emplace(context_.get(), place, timeout_seconds, identity_of(recipe));
    if (!ranks_->conducts()) follow(*ranks_, maker(recipe), bench_maker(recipe));
    return ranks_->conducts();
  }

  void emulate(const v1::Recipe& recipe, uint32_t devices) override {
    require(rank_of_process().world == 1, "--emulate-devices is for one process, not for ranks");
    const uint32_t own = devices_of(recipe);
    require(devices == own,
            fmt::format("'{}' trains on {}, not on {}", recipe.id(), device_count(own), devices),
            own == 1 ? "leave --emulate-devices out" : fmt::format("--emulate-devices {}", own));
    devices_ = devices;
  }

  double probe() override {
    if (on_cpu()) return TrainerDriver::probe();
    if (!probe_) probe_ = std::make_unique<DeviceProbe>(context_.get());
    return probe_->seconds();
  }

 private:
  bool on_cpu() const { return device_.kind == ASSAY_DEVICE_CPU; }

  // What the recipe evaluates, and what its rows over trials are about, must be measured: said
  // before the training, not after it.
  static void check_metrics(const v1::Recipe& recipe, const std::vector<std::string>& measured) {
    if (measured.empty()) return;
    const auto need = [&](const std::string& metric, const std::string& path) {
      const std::string name = metric.substr(0, metric.find_first_of(".:"));
      require(std::find(measured.begin(), measured.end(), name) != measured.end(),
              fmt::format("{}: this engine does not measure '{}' of such a model", path, metric),
              "it measures " + join(measured, ", "));
    };
    for (const std::string& metric : recipe.evaluation().metric())
      need(metric, "evaluation.metric");
    for (const v1::Expect& expect : recipe.expect()) {
      if (kind_of(expect) == RowKind::kTrials)
        need(expect.metric(), "expect." + expect.id() + ".metric");
    }
  }

  MakeTrial maker(const v1::Recipe& recipe) const {
    return [this, &recipe](uint64_t seed, const fs::path& checkpoint) {
      return make_training_trial(context_.get(), recipe, seed, devices_,
                                 ranks_ ? &*ranks_ : nullptr, !on_cpu(), checkpoint);
    };
  }
  MakeBench bench_maker(const v1::Recipe& recipe) const {
    return [this, &recipe](const std::string& bench, uint32_t batch) {
      return make_bench(context_.get(), recipe, *find_bench(recipe, bench), batch, {}, !on_cpu(),
                        &*ranks_);
    };
  }
  std::unique_ptr<TrainingTrial> make_trial(const v1::Recipe& recipe, uint64_t seed,
                                            const fs::path& checkpoint) const {
    return ranks_ ? conducted_trial(*ranks_, maker(recipe), seed, checkpoint)
                  : maker(recipe)(seed, checkpoint);
  }

  // The recipe, and what its data sets hold.
  std::string identity_of(const v1::Recipe& recipe) const {
    std::string text = recipe.DebugString();
    for (const v1::DataRef& data : recipe.data())
      text += describe_data(folder_of(recipe, data)).DebugString();
    return text;
  }

  std::string advice_on_devices(const v1::Recipe& recipe) const {
    const uint32_t own = devices_of(recipe);
    if (own > 1) return fmt::format("mpirun -np {0}, or --emulate-devices {0}", own);
    return fmt::format(
        "start it without mpirun, or change it for all: --set "
        "topology.devices_per_node={} --set topology.parallel=data",
        devices_);
  }

  // Benches take the devices they name.
  bool lacks_devices(const v1::Recipe& recipe) const {
    return devices_of(recipe) != devices_ && recipe.trials().count() != 0;
  }

  assay_device_id device_;
  Context context_;
  uint32_t devices_ = rank_of_process().world;  // of ranks, or emulated
  std::optional<RankGroup> ranks_;
  std::unique_ptr<DeviceProbe> probe_;
};

}  // namespace

std::unique_ptr<TrainerDriver> make_assay_driver(const std::string& device, uint32_t threads) {
  return std::make_unique<AssayDriver>(device, threads);
}

}  // namespace reciperun
