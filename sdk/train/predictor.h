// Inference on a snapshot of a model's weights.
#pragma once

#include <map>
#include <memory>
#include <span>

#include "sdk/runtime/program.h"
#include "sdk/train/model_instance.h"
#include "sdk/train/trainer.h"

namespace assay::train {

struct PredictorOptions {
  Precision precision = Precision::kF32;
  bool use_ema = false;
  int64_t max_batch = 1024;
  std::vector<std::string> disabled_passes;
};

class PredictorSlot;

// Immutable after construction: the weights are copied, so training goes on without disturbing it.
// May be used from many threads at once, each with a slot of its own.
class Predictor {
 public:
  Predictor(const ModelInstance& instance, PredictorOptions options);

  // The inputs a prediction takes, in order: the model's, without labels.
  const std::vector<nn::InputSpec>& inputs() const { return inputs_; }
  const PredictorOptions& options() const { return options_; }

 private:
  friend class PredictorSlot;
  std::unique_ptr<Program> compile_for(int64_t batch) const;

  std::shared_ptr<ModelInstance> snapshot_;
  PredictorOptions options_;
  std::vector<nn::InputSpec> inputs_;
};

// One caller's run state: a program per batch size, compiled on first use. Not thread-safe; must
// not outlive its predictor.
class PredictorSlot {
 public:
  explicit PredictorSlot(const Predictor& predictor) : predictor_(predictor) {}

  // Runs one batch of any size up to max_batch; all inputs have the same first size. After the
  // first run of a batch size nothing is allocated. The result's outputs ("logits",
  // "probabilities") are valid until the next run of this slot.
  Program& run(std::span<const HostTensor> inputs, const std::atomic<bool>* cancel = nullptr);
  // Compiles for this batch size now.
  Program& prepare(int64_t batch);

 private:
  const Predictor& predictor_;
  std::map<int64_t, std::unique_ptr<Program>> programs_;
};

}  // namespace assay::train
