// Training and evaluation of one model on one device.
//
// The trainer runs one program per kind of call (programs.h). Losses, norms and rates come back
// after each step. Not thread-safe: one call at a time. Programs share the model's
// segments, so nothing else may touch its weights during a call.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sdk/train/batch_queue.h"
#include "sdk/train/device_statistics.h"
#include "sdk/train/host_tensor.h"
#include "sdk/train/model_instance.h"
#include "sdk/train/programs.h"

namespace assay::train {

struct StepInfo {
  int64_t step = 0;        // updates done or skipped, this one included
  int64_t micro_step = 0;  // batches seen since the last update
  int64_t samples = 0;     // training samples seen since the beginning
  double loss = 0;         // mean over the batch, nats
  double grad_norm = 0;    // global L2 norm before clipping; 0 without an update
  double loss_scale = 1;
  double learning_rate = 0;
  double seconds = 0;  // wall time of the call
  bool updated = false;
  bool skipped = false;  // dynamic loss scaling met a NaN or infinity: nothing was updated
};

// The counters and settings of a trainer that stand in no segment.
struct Progress {
  int64_t step = 0;
  // Micro-batches since the beginning, those of all devices: the place in their streams at which
  // dropout and mix-up of the next one are drawn. Micro-batch a of A on device r of D in step s,
  // all from 0, has the place (s * A + a) * D + r, whether D devices work at once or one plays them
  // in turn, in order of rank, as A * D micro-batches: both draw the same numbers.
  int64_t batches = 0;
  int64_t samples = 0;
  double learning_rate = 0;  // at schedule factor 1
};

// What a trainer and those of the other ranks sent each other for their updates.
struct Communication {
  int64_t updates = 0;
  uint64_t bytes = 0;  // of gradients that were summed, as they travelled
  // Of the sums, those that waited for another rank included; and how much of that the backward
  // pass did not hide. Zeros where the device does not measure.
  double seconds = 0, waited = 0;
};

// What one evaluation batch gave under a name of the model's (nn/output.h), a f32 scalar.
struct EvalOutput {
  std::string_view name;
  nn::Reduction reduction = nn::Reduction::kLast;
  double value = 0;
  double weight = 0;  // what it counts with in a mean over batches: the mean is value / weight
};
using EvalOutputs = std::vector<EvalOutput>;
// Nothing but zeros if there is none of that name.
EvalOutput find_output(const EvalOutputs& outputs, std::string_view name);

class Trainer {
 public:
  // Checks the whole configuration, initialises fresh weights from the seed, allocates optimizer
  // state. With a channel this is one device of several, each with a trainer of its own, which
  // together do what one trainer with `emulated_devices` does in turn, and to the same bits: rank r
  // is device r, and the configuration is that of all. Their weights begin as rank 0's. kComm if
  // they differ in library, model or configuration.
  Trainer(std::shared_ptr<ModelInstance> instance, TrainerConfig config,
          std::shared_ptr<Channel> channel = nullptr);

  // Takes over the batch of a later step, so that its transfer goes on beside the step before: an
  // empty batch given to step or backward stands for the oldest one prefetched. Two may wait. The
  // second is read during the next step: its memory must stay unchanged until `keep` is let go. A
  // step that fails forgets what was prefetched.
  void prefetch(std::span<const HostTensor> batch, std::shared_ptr<const void> keep = nullptr);

  // One batch: training_inputs(), in order, [batch_size, sample...]; i64 may stand for i32. With
  // accumulate = K every K-th call updates. A loss or gradient that is not finite fails with
  // kNonFinite unless loss scaling is dynamic; weights, optimizer state, statistics and counters
  // are then as before the call, or before the first of the accumulated batches, which are dropped.
  // Where a device fails in the middle of an update, or does not say whether it is done, all that
  // trains, evaluates, saves or loads is kPoisoned from then on.
  StepInfo step(std::span<const HostTensor> batch);
  // step in two halves: `accumulate` backward calls (gradients add up), then apply. apply before
  // that is kInvalid. A skipped update takes back what its batches did to the running statistics.
  StepInfo backward(std::span<const HostTensor> batch);
  StepInfo apply();
  // Evaluates one batch [eval_batch_size, sample...]. The result is valid until the next call; what
  // is padding, and what counts, is the model's.
  const EvalOutputs& eval(std::span<const HostTensor> batch, bool use_ema = false);
  // A scalar output of the model for the last batch trained or evaluated: "dice_loss", "top1". A
  // mean over the batch in training, a sum in evaluation. kNotFound, listing the names.
  double scalar(std::string_view output);
  // An output of the model for the last batch, which was evaluated: logits, as the device holds
  // them until another program runs. kInvalid if none was evaluated or something ran since;
  // kNotFound, listing the names.
  const Program::Port& evaluated(std::string_view output) const;

  // "learning_rate" (the rate at schedule factor 1), "loss_scale"; checkpoints hold both.
  // "evaluated_device": the emulated device whose statistics evaluations read. Unknown keys fail
  // with kNotFound. The configuration stays what it was.
  void set(std::string_view key, double value);

  // Another thread may set this to stop the running call with kCancelled; the state is then as
  // before the call.
  std::atomic<bool>& cancel_flag() { return cancel_; }

  // What a training batch consists of.
  std::span<const nn::InputSpec> training_inputs() const { return training_arrays_.given(); }
  ModelInstance& instance() { return *instance_; }
  const ModelInstance& instance() const { return *instance_; }
  const TrainerConfig& config() const { return config_; }
  std::string config_json() const;
  Progress progress() const { return {step_, batches_, samples_, learning_rate_}; }
  int64_t step_count() const { return step_; }
  int64_t sample_count() const { return samples_; }
  double loss_scale() const;
  int64_t update_count() const { return updates_; }  // steps whose update was done, not skipped
  int64_t good_steps() const;                        // updates since the loss scale last changed
  // For checkpoints, between updates. The progress is rank 0's.
  void restore(const Progress& progress);
  // Null where there is one device.
  Channel* channel() const { return channel_.get(); }
  const Communication& communication() const { return communication_; }
  const DeviceStatistics& device_statistics() const { return statistics_; }
  DeviceStatistics& device_statistics() { return statistics_; }
  void require_between_updates() const;
  // Calls body, which changes what an update changes: if it fails, this trainer is lost.
  template <class Body>
  void whole_after(const Body& body) {
    try {
      body();
    } catch (...) {
      lose();
      throw;
    }
  }

  // The compiled programs, for reports, which may plan or run them.
  Programs& programs() {
    evaluated_program_ = nullptr;
    return programs_;
  }
  Program& step_program() { return programs_.get(GraphKind::kStep).program(); }
  // That of a batch whose padding is left out.
  Program& packed_step_program(std::span<const HostTensor> batch) {
    return programs_.get(GraphKind::kStep, training_arrays_.filled_sixteenths(batch)).program();
  }
  Program& eval_program() { return programs_.get(GraphKind::kEval).program(); }

 private:
  using Clock = std::chrono::steady_clock;
  void check_training_batch(std::span<const HostTensor> batch) const;
  // The program of this kind for the batch, which lies in its inputs.
  TrainerProgram& program_with(GraphKind kind, std::span<const HostTensor> batch);
  void require_turn(std::span<const HostTensor> batch) const;
  template <class Body>
  StepInfo with_prefetched_dropped_on_failure(const Body& body);
  StepInfo run_step(std::span<const HostTensor> batch);
  StepInfo run_backward(std::span<const HostTensor> batch);
  StepInfo run_apply(const std::atomic<bool>* cancel);
  void read_noted() noexcept;
  void with_others(const std::function<void()>& body);
  void run_with_others(Program& program, const std::atomic<bool>* cancel);
  void run(Program& program, const std::atomic<bool>* cancel);
  void run_on_statistics_of(int64_t device, Program& program);
  void read_update(TrainerProgram& program, std::span<const HostRead> more);
  void require_whole() const;
  void lose();
  void set_scalars(Program& program);
  int64_t schedule_step() const;
  double learning_rate() const;
  double current_loss_scale();
  // Waits for a run that may have updated, and reads what it says of itself; raises kNonFinite
  // where it must.
  void finish_update(TrainerProgram& program, StepInfo& info);
  void finish_accumulation(bool skipped, bool refused);
  StepInfo begin_info();
  StepInfo end_info(StepInfo info, Clock::time_point start) const;
  [[noreturn]] void fail_no_scalar(std::string_view name) const;
  // Is it a number that evaluations give?
  bool is_evaluated(std::string_view name) const;
  [[noreturn]] void fail_micro_step(std::string expected, std::string hint) const;

  void begin_alike();
  int64_t ranks() const { return channel_ == nullptr ? 1 : channel_->size(); }
  int64_t rank() const { return channel_ == nullptr ? 0 : channel_->rank(); }
  int64_t batches_of_update() const { return batches_of_rank(config_, channel_.get()); }

  std::shared_ptr<ModelInstance> instance_;
  std::shared_ptr<Channel> channel_;
  TrainerConfig config_;
  std::shared_ptr<const nn::Model> model_;  // as it is trained (nn/training_options.h)
  BatchArrays training_arrays_, eval_arrays_;
  BatchQueue prefetched_;
  std::optional<float> loss_scale_;  // that of the next step, once known here
  Programs programs_;
  std::atomic<bool> cancel_{false};
  int64_t step_ = 0;     // updates done or skipped
  int64_t updates_ = 0;  // done: what the device counts as well
  int64_t micro_step_ = 0;
  int64_t batches_;  // Progress::batches, of the next batch
  int64_t samples_ = 0;
  double last_loss_ = 0;
  EvalOutputs evaluated_;  // of the last call of eval
  // Those of the last batch trained or evaluated; the second is the apply half of an update.
  std::array<const TrainerProgram*, 2> last_programs_{};
  const TrainerProgram* evaluated_program_ = nullptr;  // whose outputs stand in the arena, or null
  double learning_rate_;  // at schedule factor 1: that of the configuration until it is set
  Communication communication_;
  DeviceStatistics statistics_;
  int64_t evaluated_device_ = 0;  // of the emulated ones
  bool is_lost_ = false;
};

}  // namespace assay::train
