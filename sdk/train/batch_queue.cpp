#include "sdk/train/batch_queue.h"

#include <algorithm>

namespace assay::train {

void BatchQueue::push(std::span<const HostTensor> batch, int64_t index,
                      std::shared_ptr<const void> keep) {
  require(waiting() < kMostWaiting, Code::kInvalid,
          "two prefetched batches wait already; train on one first");
  filled_[waiting()] = arrays_.filled_sixteenths(batch);
  // Read at once, so `keep` may go when this returns.
  if (waiting() == 0) return stage(batch, index);
  std::ranges::copy(batch, noted_.begin());
  noted_count_ = batch.size();
  noted_index_ = index;
  keep_ = std::move(keep);
  has_noted_ = true;
}

void BatchQueue::deliver(const Program& program) {
  feed_->deliver(arrays_.places_in(program));
  filled_[0] = filled_[1];
}

void BatchQueue::stage(std::span<const HostTensor> batch, int64_t index) {
  if (!feed_) feed_ = backend_.make_feed({arrays_.bytes()}, backend_);
  feed_->stage(arrays_.collect(batch, index));
}

void BatchQueue::read_noted() {
  if (!has_noted_) return;
  stage({noted_.data(), noted_count_}, noted_index_);
  has_noted_ = false;
  keep_.reset();
}

void BatchQueue::clear() {
  has_noted_ = false;
  keep_.reset();
  if (feed_) feed_->clear();
}

}  // namespace assay::train
