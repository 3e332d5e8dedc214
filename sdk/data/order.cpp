// The order of samples: permutations of epochs by Fisher-Yates with Philox numbers, or endless
// streams, cut into global batches and those into the ranks' parts.
#include "sdk/data/order.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "sdk/base/crc32c.h"
#include "sdk/base/expect.h"
#include "sdk/base/philox.h"
#include "sdk/data/loader_state.pb.h"
#include "sdk/data/streams.h"

namespace assay::data {
namespace {

void require_same(std::string_view key, const auto& saved, const auto& here) {
  if (saved == here) return;
  const std::string hint = "use the same data and configuration";
  fail(Code::kInvalid,
       cat("loader: the saved position belongs to ", key, " ", saved, ", but this loader has ",
           here, "; ", hint),
       {.argument = std::string(key), .expected = cat(saved), .actual = cat(here), .hint = hint});
}

}  // namespace

EpochOrder::EpochOrder(int64_t samples, const LoaderConfig& config)
    : samples_(samples),
      batch_size_(config.batch_size),
      world_size_(config.world_size),
      rank_(config.rank),
      accumulate_(config.accumulate),
      seed_(config.seed),
      order_(config.order),
      last_batch_(config.last_batch) {
  require(samples_ > 0, Code::kInvalid, "loader: the data set has no records; convert it again");
  require(samples_ < std::numeric_limits<uint32_t>::max(), Code::kUnsupported,
          "loader: more than 2^32 - 1 records are not supported, the data set has ", samples_);
  const auto& records = config.record;
  if (!records.empty()) {
    records_crc32c_ = crc32c(records.data(), records.size() * sizeof(int64_t));
  }
  if (order_ == "stream" || order_ == "rotating") {
    open_stream(*config.buffer);
    return;
  }
  // An epoch holds whole updates of `accumulate` global batches.
  const int64_t update = global_batch() * accumulate_;
  const int64_t rounding = last_batch_ == "drop" ? 0 : update - 1;
  batches_ = static_cast<uint64_t>((samples_ + rounding) / update * accumulate_);
  if (batches_ == 0) {
    const std::string times = accumulate_ == 1 ? "" : cat(", accumulated ", accumulate_, " times,");
    fail_mismatch(Code::kInvalid, {cat("loader: a global batch of ", global_batch(), times, " for ",
                                       samples_, " records: batch_size"),
                                   "batch_size", cat(batch_size_), "a size that they fill",
                                   "lower it or set last_batch to \"pad\" or \"wrap\""});
  }
  permutation_.resize(static_cast<size_t>(samples_));
  std::iota(permutation_.begin(), permutation_.end(), 0u);
}

void EpochOrder::open_stream(int64_t buffer) {
  const bool rotating = order_ == "rotating";
  buffer_ = buffer;
  expect(samples_ >= world_size_, {"loader", "world_size"}, world_size_, "at most the ", samples_,
         " samples: each rank needs one");
  const int64_t update = global_batch() * accumulate_;
  // An epoch of a stream is only a count: as many updates as one pass would fill, at least one.
  batches_ = static_cast<uint64_t>(std::max<int64_t>(1, samples_ / update) * accumulate_);
  stream_.emplace(samples_, static_cast<int>(rank_), static_cast<int>(world_size_), buffer_, seed_,
                  rotating ? Sharding::kRotating : Sharding::kStrided);
}

uint64_t EpochOrder::max_epochs() const {
  // The epoch is a 32-bit coordinate of the random streams; batches are counted in 64 bits.
  constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max();
  if (!stream_) return std::min(kMost, std::numeric_limits<uint64_t>::max() / batches_);
  return std::min(kMost, ShuffledStream::kMaxDraws / first_draw(1, 0));
}

// Of a stream.
uint64_t EpochOrder::first_draw(uint64_t epoch, uint64_t batch) const {
  return (epoch * batches_ + batch) * static_cast<uint64_t>(batch_size_);
}

void EpochOrder::seek(uint64_t epoch, uint64_t batch, const std::atomic<bool>& cancelled) {
  if (stream_) stream_->seek(first_draw(epoch, batch), cancelled);
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

// "wrap" goes on at the beginning of the same order, as often as the batch needs.
void EpochOrder::samples_of(uint64_t epoch, uint64_t batch, std::vector<Draw>& draws) {
  draws.clear();
  if (stream_) {
    const uint64_t begin = first_draw(epoch, batch);
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
  state.set_accumulate(accumulate_);
  return state;
}

void EpochOrder::check_position(const LoaderState& state) const {
  require_same("seed", state.seed(), seed_);
  require_same("number of samples", state.samples(), samples_);
  require_same("global batch size", state.global_batch(), global_batch());
  require_same("order", state.order(), order_text());
  require_same("last_batch", state.last_batch(), last_batch_);
  require_same("buffer", state.buffer(), buffer_);
  // Positions of before the key existed hold 0, which meant 1.
  require_same("accumulate", std::max<int64_t>(state.accumulate(), 1), accumulate_);
  expect(state.records_crc32c() == records_crc32c_, {"loader", "record"}, "another list of records",
         "that of the saved position");
  expect(state.batch() < batches_, {"loader", "batch of the saved position"}, state.batch(),
         "less than the ", batches_, " of an epoch");
}

}  // namespace assay::data
