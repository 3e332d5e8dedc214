// Inference on a snapshot of a model's weights.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sdk/passes/precision.h"
#include "sdk/runtime/program.h"
#include "sdk/train/host_tensor.h"
#include "sdk/train/model_instance.h"

namespace assay::train {

struct PredictorOptions {
  Precision precision = Precision::kF32;
  bool use_ema = false;
  int64_t max_batch = 1024;
  std::vector<int64_t> image_size;  // rows, columns; empty: the model's
  std::string suppression;          // of a detector: "soft" or "hard"; empty: soft
  std::optional<int64_t> sequence_length, prediction_slots;  // of models of text
  std::vector<std::string> disabled_passes;
};

class PredictorSlot;

// Immutable after construction: the weights are copied before anything changes them, so training
// goes on without disturbing it, and what kernels make of them is shared by all batch sizes and
// slots. May be used from many threads at once, each with a slot of its own.
class Predictor {
 public:
  Predictor(const ModelInstance& instance, PredictorOptions options);

  // The inputs a prediction takes, in order: the model's, without labels.
  const std::vector<nn::InputSpec>& inputs() const { return inputs_; }
  const PredictorOptions& options() const { return options_; }
  // The model with the weights of when it was made, which nobody changes.
  ModelInstance& snapshot() const { return *snapshot_; }

 private:
  friend class PredictorSlot;
  std::unique_ptr<Program> compile_for(int64_t batch) const;

  std::shared_ptr<ModelInstance> snapshot_;
  std::shared_ptr<ConstantStore> constants_ = std::make_shared<ConstantStore>();
  PredictorOptions options_;
  std::vector<nn::InputSpec> inputs_;
};

// One caller's run state: a program for each of the batch sizes used last, compiled on first use.
// Not thread-safe; must not outlive its predictor.
class PredictorSlot {
 public:
  // More batch sizes than this in turn are compiled again and again.
  static constexpr size_t kPrograms = 8;

  explicit PredictorSlot(const Predictor& predictor) : predictor_(predictor) {
    programs_.reserve(kPrograms);
  }

  // Runs one batch of any size up to max_batch; all inputs have the same first size, and i64 may
  // stand for i32. After the first run of a batch size nothing is allocated. The result's outputs
  // ("logits", "probabilities") are valid until the next run of this slot.
  Program& run(std::span<const HostTensor> inputs, const std::atomic<bool>* cancel = nullptr);
  // Compiles for this batch size now. Its results live as long as the program is kept or shared.
  const std::shared_ptr<Program>& prepare(int64_t batch);
  bool keeps(const std::shared_ptr<Program>& program) const;

 private:
  struct Entry {
    int64_t batch;
    std::shared_ptr<Program> program;
  };
  const Predictor& predictor_;
  std::vector<Entry> programs_;      // the one used last stands first
  std::vector<std::byte> narrowed_;  // i64 in place of i32
};

}  // namespace assay::train
