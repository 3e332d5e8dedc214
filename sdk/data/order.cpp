#include "sdk/data/order.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "sdk/base/crc32c.h"
#include "sdk/base/error.h"
#include "sdk/base/philox.h"
#include "sdk/data/streams.h"

namespace assay::data {
namespace {

// `value`, or the first of the choices when it is empty.
std::string choice(std::string_view key, const std::string& value,
                   std::initializer_list<std::string_view> choices) {
  if (value.empty()) return std::string(*choices.begin());
  std::string names;
  for (const std::string_view name : choices) {
    if (name == value) return value;
    names += cat(names.empty() ? "" : ", ", name);
  }
  fail(Code::kInvalid, cat("loader: ", key, " is \"", value, "\", expected one of ", names));
}

void require_same(std::string_view key, const auto& saved, const auto& here) {
  require(saved == here, Code::kInvalid, "loader: the saved position belongs to ", key, " ", saved,
          ", but this loader has ", here, "; use the same data and configuration");
}

}  // namespace

EpochOrder::EpochOrder(int64_t samples, const LoaderConfig& config)
    : samples_(samples),
      batch_size_(config.batch_size()),
      world_size_(std::max(1, config.world_size())),
      rank_(config.rank()),
      seed_(config.seed()),
      order_(choice("order", config.order(), {"shuffled", "sequential", "stream", "rotating"})),
      last_batch_(choice("last_batch", config.last_batch(), {"drop", "pad", "wrap"})) {
  constexpr int64_t kMaxBatch = int64_t{1} << 24;
  require(samples_ > 0, Code::kInvalid, "loader: the data set has no records; convert it again");
  require(samples_ < std::numeric_limits<uint32_t>::max(), Code::kUnsupported,
          "loader: more than 2^32 - 1 records are not supported, the data set has ", samples_);
  require(batch_size_ > 0 && batch_size_ <= kMaxBatch, Code::kInvalid, "loader: batch_size is ",
          batch_size_, ", expected 1 to ", kMaxBatch);
  require(config.world_size() >= 0 && rank_ >= 0 && rank_ < world_size_, Code::kInvalid,
          "loader: rank is ", rank_, " of world_size ", config.world_size(),
          ", expected 0 <= rank < world_size");
  const auto& records = config.record();
  if (!records.empty()) {
    records_crc32c_ = crc32c(records.data(), static_cast<size_t>(records.size()) * sizeof(int64_t));
  }
  if (order_ == "stream" || order_ == "rotating") {
    open_stream(config.buffer());
    return;
  }
  require(config.buffer() == 0, Code::kInvalid,
          "loader: buffer is for the orders \"stream\" and \"rotating\", not \"", order_, "\"");
  const int64_t rounding = last_batch_ == "drop" ? 0 : global_batch() - 1;
  batches_ = static_cast<uint64_t>((samples_ + rounding) / global_batch());
  require(batches_ > 0, Code::kInvalid, "loader: a global batch of ", global_batch(),
          " needs more than the ", samples_,
          " records there are; lower batch_size or set last_batch to \"pad\" or \"wrap\"");
  permutation_.resize(static_cast<size_t>(samples_));
  std::iota(permutation_.begin(), permutation_.end(), 0u);
}

void EpochOrder::open_stream(int64_t buffer) {
  constexpr int64_t kMaxBuffer = int64_t{1} << 24;
  constexpr int64_t kBufferOfDali = 1024;
  const bool rotating = order_ == "rotating";
  buffer_ = buffer != 0 ? buffer : rotating ? kBufferOfDali : 3 * batch_size_;
  require(buffer_ > 0 && buffer_ <= kMaxBuffer, Code::kInvalid, "loader: buffer is ", buffer_,
          ", expected 1 to ", kMaxBuffer);
  require(samples_ >= world_size_, Code::kInvalid, "loader: ", world_size_,
          " ranks need a sample each, there are ", samples_);
  batches_ = static_cast<uint64_t>(std::max<int64_t>(1, samples_ / global_batch()));
  stream_.emplace(samples_, static_cast<int>(rank_), static_cast<int>(world_size_), buffer_, seed_,
                  rotating ? Sharding::kRotating : Sharding::kStrided);
}

void EpochOrder::shuffle(uint64_t epoch) {
  // Always from the identity: the order of an epoch must not depend on the epochs before it.
  std::iota(permutation_.begin(), permutation_.end(), 0u);
  PhiloxStream random(seed_, kShuffleStream, epoch);
  for (auto left = static_cast<uint32_t>(samples_); left > 1; --left) {
    std::swap(permutation_[left - 1], permutation_[random.below(left)]);
  }
  permuted_epoch_ = epoch;
}

void EpochOrder::samples_of(uint64_t epoch, uint64_t batch, std::vector<Draw>& draws) {
  draws.clear();
  if (stream_) {
    const uint64_t begin = (epoch * batches_ + batch) * static_cast<uint64_t>(batch_size_);
    for (int64_t row = 0; row < batch_size_; ++row)
      draws.push_back(stream_->at(begin + static_cast<uint64_t>(row)));
    return;
  }
  if (order_ == "shuffled" && permuted_epoch_ != epoch) shuffle(epoch);
  const int64_t begin = static_cast<int64_t>(batch) * global_batch() + rank_ * batch_size_;
  for (int64_t position = begin; position < begin + batch_size_; ++position) {
    if (position >= samples_ && last_batch_ != "wrap") break;
    draws.push_back(
        {permutation_[static_cast<size_t>(position % samples_)], static_cast<uint32_t>(epoch)});
  }
}

// A stream's batches depend on the number of ranks, beyond the size of the global batch.
std::string EpochOrder::order_text() const {
  return stream_ && world_size_ > 1 ? cat(order_, " over ", world_size_, " ranks") : order_;
}

LoaderState EpochOrder::position(uint64_t epoch, uint64_t batch) const {
  LoaderState state;
  state.set_epoch(epoch);
  state.set_batch(batch);
  state.set_seed(seed_);
  state.set_samples(samples_);
  state.set_global_batch(global_batch());
  state.set_order(order_text());
  state.set_last_batch(last_batch_);
  state.set_buffer(buffer_);
  state.set_records_crc32c(records_crc32c_);
  return state;
}

void EpochOrder::check_position(const LoaderState& state) const {
  require_same("seed", state.seed(), seed_);
  require_same("number of samples", state.samples(), samples_);
  require_same("global batch size", state.global_batch(), global_batch());
  require_same("order", state.order(), order_text());
  require_same("last_batch", state.last_batch(), last_batch_);
  require_same("buffer", state.buffer(), buffer_);
  require(state.records_crc32c() == records_crc32c_, Code::kInvalid,
          "loader: the saved position belongs to another list of records");
  require(state.batch() < batches_, Code::kInvalid, "loader: the saved position is batch ",
          state.batch(), " of an epoch of ", batches_, " batches");
}

}  // namespace assay::data
