// Training batches on their way to a trainer's programs: which arrays a batch has, and what becomes
// of each. The transfers are the backend's (sdk/backend/feed.h).
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "sdk/backend/feed.h"
#include "sdk/nn/builder.h"
#include "sdk/runtime/program.h"
#include "sdk/train/host_tensor.h"
#include "sdk/train/mixup.h"
#include "sdk/train/trainer.pb.h"

namespace assay::train {

// What a training batch consists of: the model's inputs, or with TrainerConfig::raw_images the
// image as bytes, the label, and "placement" i32 [4].
std::vector<nn::InputSpec> training_arrays(const std::vector<nn::InputSpec>& inputs,
                                           const TrainerConfig& config);

// Fails with kInvalid if the configuration asks for raw images that this model cannot take.
void check_raw_images(const std::vector<nn::InputSpec>& inputs, const TrainerConfig& config);

// Not thread-safe. `mixup` is null where nothing is mixed; both references outlive this.
class TrainingFeed {
 public:
  TrainingFeed(Backend& backend, const std::vector<nn::InputSpec>& inputs,
               const TrainerConfig& config, Mixup* mixup);

  // A batch that was checked against training_arrays(); `index` is its number for mixup.
  void stage(std::span<const HostTensor> batch, int64_t index);
  size_t staged() const { return feed_->staged(); }
  // The oldest staged batch into the program's inputs.
  void deliver(Program& program);
  void clear() { feed_->clear(); }

 private:
  static constexpr size_t kMostArrays = 8;

  const std::vector<nn::InputSpec>& inputs_;
  Mixup* mixup_;
  bool raw_;
  FeedSpec spec_;
  FeedImages images_;
  FeedMix mix_;
  std::unique_ptr<Feed> feed_;
};

}  // namespace assay::train
