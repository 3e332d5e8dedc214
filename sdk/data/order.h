// Which samples make up which batch.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sdk/data/loader_config.h"
#include "sdk/data/stream.h"

namespace assay::data {

class LoaderState;  // loader_state.proto

// A function of configuration and number of samples; caches the permutation of one epoch.
class EpochOrder {
 public:
  // Takes a configuration that passed the checks of loader_config.h.
  EpochOrder(int64_t samples, const LoaderConfig& config);

  // Same on every rank, so that ranks stay in step.
  uint64_t batches_per_epoch() const { return batches_; }
  // Epochs that can be told apart: what random numbers are drawn from has room for no more.
  uint64_t max_epochs() const;
  int64_t batch_size() const { return batch_size_; }
  int64_t global_batch() const { return batch_size_ * world_size_; }

  // Replaces `draws` by this rank's samples of a batch: batch_size() of them, fewer (even none)
  // where the last batch is padded. Not thread-safe.
  void samples_of(uint64_t epoch, uint64_t batch, std::vector<Draw>& draws);
  // Does the part of the next samples_of that may take long, or a piece of it once `cancelled`.
  void seek(uint64_t epoch, uint64_t batch, const std::atomic<bool>& cancelled);

  // The position before a batch, with what its meaning depends on.
  LoaderState position(uint64_t epoch, uint64_t batch) const;
  // kInvalid unless the position means the same batches here.
  void check_position(const LoaderState& state) const;

 private:
  void open_stream(int64_t buffer);
  uint64_t first_draw(uint64_t epoch, uint64_t batch) const;
  void shuffle(uint64_t epoch);
  std::string order_text() const;

  int64_t samples_;
  int64_t batch_size_;
  int64_t world_size_;
  int64_t rank_;
  int64_t accumulate_;
  uint64_t seed_;
  std::string order_;
  std::string last_batch_;
  uint64_t batches_ = 0;
  std::vector<uint32_t> permutation_;
  uint64_t permuted_epoch_ = UINT64_MAX;
  std::optional<ShuffledStream> stream_;
  int64_t buffer_ = 0;
  uint32_t records_crc32c_ = 0;
};

}  // namespace assay::data
