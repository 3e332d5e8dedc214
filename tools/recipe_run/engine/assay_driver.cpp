#include "tools/recipe_run/engine/assay_driver.h"

#include <chrono>
#include <cmath>
#include <vector>

#include "tools/recipe_run/base/json_writer.h"
#include "tools/recipe_run/engine/assay_trial.h"

namespace reciperun {
namespace {

using Clock = std::chrono::steady_clock;

class TrainBench : public BenchSession {
 public:
  TrainBench(assay_context* context, const v1::Recipe& recipe, const BenchPoint& point)
      : trial_(context, recipe, 1, point.batch),
        items_(int64_t{point.batch} * std::max(1u, recipe.training().accumulate())) {}
  int64_t items_per_batch() const override { return items_; }
  double run_batch() override { return trial_.run_step().seconds; }

 private:
  AssayTrial trial_;
  int64_t items_;
};

// Inference on made-up images: what they show does not change the time.
class InferBench : public BenchSession {
 public:
  InferBench(assay_context* context, const v1::Recipe& recipe, const BenchPoint& point,
             const fs::path& checkpoint)
      : batch_(point.batch) {
    const Model model = make<Model>(Exit::kUsage, assay_model_named, context,
                                    str(recipe.model().arch()), str(model_config(recipe.model())));
    if (checkpoint.empty()) {
      call(Exit::kCrashed, assay_model_initialize, model.get(), uint64_t{1});
    } else {
      call(Exit::kCrashed, assay_model_load_weights, model.get(), str(checkpoint.native()),
           str("checkpoint"), assay_str{}, uint32_t{0}, static_cast<assay_report**>(nullptr));
    }
    JsonWriter json;
    json.begin_object().field(
        "precision", recipe.numerics().compute() == v1::Numerics::AMP_BF16 ? "amp-bf16" : "fp32");
    json.field("max_batch", batch_).end_object();
    predictor_ =
        make<Predictor>(Exit::kUsage, assay_predictor_create, model.get(), str(json.text()));
    slot_ = make<Slot>(Exit::kCrashed, assay_slot_create, predictor_.get());
    call(Exit::kCrashed, assay_slot_prepare, slot_.get(), batch_);
    make_input(context);
  }

  int64_t items_per_batch() const override { return batch_; }

  double run_batch() override {
    const assay_tensor* in[] = {input_.get()};
    assay_tensor* out[] = {nullptr};
    const auto start = Clock::now();
    call(Exit::kCrashed, assay_predictor_run, predictor_.get(), slot_.get(),
         static_cast<const assay_tensor* const*>(in), size_t{1}, static_cast<assay_tensor**>(out),
         size_t{1});
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    assay_tensor_release(out[0]);
    return seconds;
  }

 private:
  void make_input(assay_context* context) {
    const auto description = report(Exit::kCrashed, assay_predictor_report, predictor_.get());
    std::vector<int64_t> shape = {batch_};
    int64_t elements = batch_;
    const auto& first = description.fields().at("inputs").list_value().values(0).struct_value();
    for (const auto& size : first.fields().at("sample_shape").list_value().values()) {
      shape.push_back(std::llround(size.number_value()));
      elements *= shape.back();
    }
    input_ =
        make<Tensor>(Exit::kCrashed, assay_tensor_new, context,
                     assay_device_id{ASSAY_DEVICE_CPU, 0}, assay_dtype{ASSAY_F32},
                     static_cast<const int64_t*>(shape.data()), static_cast<int32_t>(shape.size()));
    std::vector<float> pixels(static_cast<size_t>(elements));
    uint32_t state = 1;
    for (float& pixel : pixels) {
      state = state * 1664525u + 1013904223u;
      pixel = static_cast<float>(state >> 8) / 16777216.0f;
    }
    call(Exit::kCrashed, assay_tensor_write, input_.get(), static_cast<const void*>(pixels.data()),
         pixels.size() * sizeof(float));
  }

  int64_t batch_;
  Predictor predictor_;
  Slot slot_;
  Tensor input_;
};

class AssayDriver : public TrainerDriver {
 public:
  explicit AssayDriver(uint32_t threads) {
    assay_context_options options = {};
    options.struct_size = sizeof options;
    options.n_threads = static_cast<int32_t>(threads);
    context_ = make<Context>(Exit::kCrashed, assay_context_create,
                             static_cast<const assay_context_options*>(&options),
                             static_cast<const assay_host*>(nullptr),
                             static_cast<const assay_device_id*>(nullptr), size_t{0});
  }

  EngineInfo info() const override {
    const auto environment = report(Exit::kCrashed, assay_env_report, context_.get());
    const auto device = environment.fields().find("device");
    std::string name = device == environment.fields().end()
                           ? ""
                           : device->second.struct_value().fields().at("name").string_value();
    return {"assay " + text(assay_version_string()), name};
  }

  void check(const v1::Recipe& recipe) override {
    for (const v1::DataRef& data : recipe.data()) {
      split_records(recipe, data);
      transform_config(data);
    }
    const AssayTrial trial(context_.get(), recipe, 1);
    if (recipe.model().expect_parameters() > 0 &&
        trial.parameters() != recipe.model().expect_parameters()) {
      throw Error(Exit::kUsage, "the model has " + std::to_string(trial.parameters()) +
                                    " parameters, the recipe expects " +
                                    std::to_string(recipe.model().expect_parameters()));
    }
  }

  std::unique_ptr<TrainingTrial> start(const v1::Recipe& recipe, uint64_t seed) override {
    return std::make_unique<AssayTrial>(context_.get(), recipe, seed);
  }

  std::unique_ptr<TrainingTrial> resume(const v1::Recipe& recipe, uint64_t seed,
                                        const fs::path& checkpoint) override {
    auto trial = std::make_unique<AssayTrial>(context_.get(), recipe, seed);
    trial->load(checkpoint);
    return trial;
  }

  std::unique_ptr<BenchSession> bench(const v1::Recipe& recipe, const BenchPoint& point,
                                      const fs::path& checkpoint) override {
    if (point.devices > 1) throw Error(Exit::kUsage, "this engine runs on one device");
    if (point.bench.mode() == v1::Bench::TRAIN)
      return std::make_unique<TrainBench>(context_.get(), recipe, point);
    return std::make_unique<InferBench>(context_.get(), recipe, point, checkpoint);
  }

  void cancel() override { assay_context_interrupt(context_.get()); }

 private:
  Context context_;
};

}  // namespace

std::unique_ptr<TrainerDriver> make_assay_driver(uint32_t threads) {
  return std::make_unique<AssayDriver>(threads);
}

}  // namespace reciperun
