#include "tools/recipe_run/engine/benches.h"

#include <chrono>
#include <vector>

#include "tools/recipe_run/engine/recipe_objects.h"

namespace reciperun::engine {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

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
  double load_batch() override {
    if (!with_loading_) return 0;
    const auto start = Clock::now();
    call(Exit::kCrashed, assay_loader_next, loader_.get(), loaded_, feeding_.tensors, nullptr);
    return seconds_since(start);
  }
  double compute_batch() override {
    if (!with_loading_) return 0;
    const auto start = Clock::now();
    call(Exit::kCrashed, assay_trainer_prefetch, trainer_.get(), loaded_, feeding_.tensors);
    call(Exit::kCrashed, assay_trainer_step, trainer_.get(), nullptr, size_t{0}, nullptr);
    return seconds_since(start);
  }

 private:
  int64_t batch_;
  Model model_;
  Feeding feeding_;
  Trainer trainer_;
  Loader loader_;
  bool with_loading_;
  int ahead_ = 0;                                 // prefetched batches
  const assay_tensor* loaded_[kRawTensors] = {};  // the batch of load_batch
};

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
    return predict(input, start);
  }
  double load_batch() override {
    if (!loader_ || !with_loading_) return 0;
    const auto start = Clock::now();
    call(Exit::kCrashed, assay_loader_next, loader_.get(), &loaded_, size_t{1}, nullptr);
    return seconds_since(start);
  }
  double compute_batch() override {
    return !loader_ || !with_loading_ ? 0 : predict(loaded_, Clock::now());
  }

 private:
  double predict(const assay_tensor* input, Clock::time_point start) {
    assay_tensor* logits = nullptr;
    call(Exit::kCrashed, assay_predictor_run, predictor_.get(), slot_.get(), &input, size_t{1},
         &logits, size_t{1});
    const double seconds = seconds_since(start);
    assay_tensor_release(logits);
    return seconds;
  }

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
  const assay_tensor* loaded_ = nullptr;  // the batch of load_batch
};

}  // namespace

std::unique_ptr<BenchSession> make_training_bench(const assay_context* context,
                                                  const v1::Recipe& recipe, const BenchPoint& point,
                                                  bool on_gpu) {
  return std::make_unique<TrainingBench>(context, recipe, point, on_gpu);
}

std::unique_ptr<BenchSession> make_inference_bench(const assay_context* context,
                                                   const v1::Recipe& recipe,
                                                   const BenchPoint& point,
                                                   const fs::path& checkpoint) {
  return std::make_unique<InferenceBench>(context, recipe, point, checkpoint);
}

}  // namespace reciperun::engine
