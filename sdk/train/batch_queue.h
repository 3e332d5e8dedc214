// The batches that wait for a trainer's next steps.
#pragma once

#include <array>
#include <memory>
#include <span>

#include "sdk/backend/feed.h"
#include "sdk/train/batch_arrays.h"

namespace assay::train {

// Two may wait. The first is read at once, and its transfer goes on beside what runs. The second is
// only noted, and read by read_noted() while the step before it is computed. Not thread-safe;
// `arrays` outlives this. Memory for the transfers is taken with the first batch.
class BatchQueue {
 public:
  static constexpr size_t kMostWaiting = 2;

  BatchQueue(Backend& backend, BatchArrays& arrays) : backend_(backend), arrays_(arrays) {}

  // A batch that was checked; `index` is its number, for what is drawn. `keep` is let go when its
  // memory has been read. kInvalid if two wait.
  void push(std::span<const HostTensor> batch, int64_t index, std::shared_ptr<const void> keep);
  // Of the oldest: BatchArrays::filled_sixteenths.
  int filled_sixteenths() const { return filled_[0]; }
  // Batches pushed and not delivered.
  size_t waiting() const { return (feed_ ? feed_->staged() : 0) + (has_noted_ ? 1 : 0); }
  // The oldest into the program's inputs.
  void deliver(const Program& program);
  void read_noted();
  void clear();

 private:
  void stage(std::span<const HostTensor> batch, int64_t index);

  Backend& backend_;
  BatchArrays& arrays_;
  std::unique_ptr<Feed> feed_;
  std::array<int, kMostWaiting> filled_{};  // by place in the queue
  bool has_noted_ = false;
  std::array<HostTensor, kMostBatchTensors> noted_;
  size_t noted_count_ = 0;
  int64_t noted_index_ = 0;
  std::shared_ptr<const void> keep_;
};

}  // namespace assay::train
