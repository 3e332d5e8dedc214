// Two kinds of timed batches, and the probe: each makes its objects once and times calls of the C
// interface.
#include "tools/recipe_run/assay/bench.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace reciperun::engine {
namespace {

// Times loading and computing, each alone, where the timed span has loading in it.
class LoadedBench : public BenchSession {
 public:
  double load_batch() final {
    return with_loading_ ? timed([this] { load(); }) : 0;
  }
  double compute_batch() final {
    return with_loading_ ? timed([this] { compute(); }) : 0;
  }

 protected:
  virtual void load() = 0;
  virtual void compute() = 0;

  bool with_loading_ = false;

 private:
  template <class Work>
  static double timed(const Work& work) {
    const Stopwatch watch;
    work();
    return watch.seconds();
  }
};

class TrainingBench : public LoadedBench {
 public:
  TrainingBench(const assay_context* context, const v1::Recipe& recipe, const v1::Bench& bench,
                uint32_t batch, bool on_gpu, const RankGroup* ranks)
      : batch_(batch),
        model_(new_model(context, recipe)),
        feeding_(feeding_for(training_data(recipe), on_gpu)) {
    with_loading_ = bench.timing_span() == "load+compute";
    require(bench.input() == "real",
            "bench '" + bench.id() + "': training is measured on real input", "input: \"real\"");
    const uint32_t devices = ranks == nullptr ? 1 : ranks->world();
    Share share;
    if (ranks != nullptr) share.rank = ranks->rank(), share.world_size = devices;
    loader_ = new_training_loader(
        context, recipe, feeding_,
        training_loader_config(recipe, training_data(recipe), 1, batch_, share));
    loaded_.emplace(loader_.get(), feeding_.raw_images.empty() ? model_.get() : nullptr);
    const std::string config = trainer_config(
        recipe, training_length(recipe, split_samples(recipe, training_data(recipe)), devices),
        encoder_layers(model_.get()), 1, batch_, devices, feeding_.raw_images);
    assay_trainer_options options{};
    options.struct_size = sizeof options;
    options.comm = ranks == nullptr ? nullptr : ranks->comm();
    trainer_ =
        made<Trainer>(Exit::kUsage, assay_trainer_create, model_.get(), &options, text(config));
  }
  int64_t items_per_batch() const override { return batch_; }
  double run_batch() override {
    Stopwatch watch;
    for (; ahead_ < 2; ++ahead_) {
      load();
      prefetch();
    }
    if (!with_loading_) watch = Stopwatch();
    step();
    --ahead_;
    return watch.seconds();
  }

 private:
  void load() override { loaded_->next(loader_.get()); }
  void compute() override {
    prefetch();
    step();
  }
  void prefetch() {
    call(Exit::kCrashed, assay_trainer_prefetch, trainer_.get(), loaded_->data(), loaded_->size());
  }
  void step() {
    call(Exit::kCrashed, assay_trainer_step, trainer_.get(), nullptr, size_t{0}, nullptr);
  }

  int64_t batch_;
  Model model_;
  Feeding feeding_;
  Trainer trainer_;
  Loader loader_;
  int ahead_ = 0;                // prefetched batches
  std::optional<Batch> loaded_;  // the loader's last
};

class InferenceBench : public LoadedBench {
 public:
  InferenceBench(const assay_context* context, const v1::Recipe& recipe, const v1::Bench& bench,
                 uint32_t batch, const fs::path& checkpoint)
      : context_(context), batch_(batch), rows_(batch), model_(new_model(context, recipe)) {
    const bool real = bench.input() == "real";
    require(real || bench.input() == "synthetic",
            "bench '" + bench.id() + "': inference is measured on synthetic or real input",
            "input: \"synthetic\" or \"real\"");
    if (checkpoint.empty()) {
      call(Exit::kCrashed, assay_model_initialize, model_.get(), uint64_t{1});
    } else {
      call(Exit::kTampered, assay_model_load_weights, model_.get(), text(checkpoint.string()),
           text("checkpoint"), text(""), uint32_t{0}, nullptr);
    }
    forward_ = std::make_unique<Forward>(model_.get(),
                                         predictor_config(recipe, batch_, prediction_of(bench)));
    with_loading_ = real && bench.timing_span() == "load+compute";
    if (real) {
      const v1::DataRef& data = bench_data(recipe);
      loader_ = new_loader(context, recipe, data,
                           bench_loader_config(recipe, data, batch_, bench.allow_partial_batch()));
      loaded_.emplace(loader_.get());
    } else {
      require(forward_->inputs() == 1,
              "bench '" + bench.id() + "': synthetic input is one tensor of images",
              "input: \"real\"");
      zeros_.push_back(new_tensor(context, input_shape()));
    }
  }
  int64_t items_per_batch() const override { return rows_; }
  double run_batch() override {
    Stopwatch watch;
    if (loader_) load();
    if (!with_loading_) watch = Stopwatch();
    compute();
    return watch.seconds();
  }

 private:
  void load() override {
    assay_batch_info info{};
    info.struct_size = sizeof info;
    loaded_->next(loader_.get(), &info);
    rows_ = info.valid;
  }
  void compute() override {
    if (!loader_)
      forward_->run(zeros_);
    else if (rows_ == batch_)
      forward_->run(loaded_->data());
    else
      forward_->run(first_rows(context_, *loaded_, forward_->inputs(), rows_));
  }
  std::vector<int64_t> input_shape() const {
    std::vector<int64_t> shape{batch_};
    const Struct image = objects_of(model_report(model_.get()), "inputs")[0];
    for (const int64_t size : integers_of(image, "sample_shape")) shape.push_back(size);
    return shape;
  }

  const assay_context* context_;
  int64_t batch_, rows_;  // asked for, and of the last batch
  Model model_;
  std::unique_ptr<Forward> forward_;
  std::vector<Tensor> zeros_;  // what is computed on where nothing is loaded
  Loader loader_;
  std::optional<Batch> loaded_;  // the loader's last
};

}  // namespace

std::unique_ptr<BenchSession> make_bench(const assay_context* context, const v1::Recipe& recipe,
                                         const v1::Bench& bench, uint32_t batch,
                                         const fs::path& checkpoint, bool on_gpu,
                                         const RankGroup* ranks) {
  const std::vector<v1::Recipe> phases = phases_of(recipe);
  const auto& named = recipe.training().phase();
  const auto found = std::find_if(named.begin(), named.end(), [&](const v1::Phase& phase) {
    return phase.name() == bench.phase();
  });
  require(bench.phase().empty() || found != named.end(),
          "bench '" + bench.id() + "': there is no phase '" + bench.phase() + "'");
  const v1::Recipe& measured =
      phases[bench.phase().empty() ? 0 : static_cast<size_t>(found - named.begin())];
  if (bench.mode() == v1::Bench::TRAIN)
    return std::make_unique<TrainingBench>(context, measured, bench, batch, on_gpu, ranks);
  require(ranks == nullptr, "bench '" + bench.id() + "': inference is measured on one device");
  return std::make_unique<InferenceBench>(context, measured, bench, batch, checkpoint);
}

// 17 GFLOP for 64 KiB of images: half a millisecond of an H200 in fp32, a tenth of a second of two
// cores. The first prediction makes plans and memory.
DeviceProbe::DeviceProbe(const assay_context* context)
    : model_(
          made<Model>(Exit::kCrashed, assay_model_named, context, text("cnn"),
                      text(R"({"image": [32, 32, 1], "conv": [256, 256, 256], "hidden": [0]})"))) {
  call(Exit::kCrashed, assay_model_initialize, model_.get(), uint64_t{1});
  forward_ = std::make_unique<Forward>(model_.get(), R"({"max_batch": 16})");
  images_.push_back(new_tensor(context, {16, 32, 32, 1}));
  forward_->run(images_);
}

double DeviceProbe::seconds() {
  return fastest([this] { forward_->run(images_); });
}

}  // namespace reciperun::engine
