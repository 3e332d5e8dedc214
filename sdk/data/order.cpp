#include "sdk/data/order.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

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
      order_(choice("order", config.order(), {"shuffled", "sequential"})),
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
  const int64_t rounding = last_batch_ == "drop" ? 0 : global_batch() - 1;
  batches_ = static_cast<uint64_t>((samples_ + rounding) / global_batch());
  require(batches_ > 0, Code::kInvalid, "loader: a global batch of ", global_batch(),
          " needs more than the ", samples_,
          " records there are; lower batch_size or set last_batch to \"pad\" or \"wrap\"");
  permutation_.resize(static_cast<size_t>(samples_));
  std::iota(permutation_.begin(), permutation_.end(), 0u);
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

void EpochOrder::samples_of(uint64_t epoch, uint64_t batch, std::vector<uint32_t>& indices) {
  if (order_ == "shuffled" && permuted_epoch_ != epoch) shuffle(epoch);
  const int64_t begin = static_cast<int64_t>(batch) * global_batch() + rank_ * batch_size_;
  indices.clear();
  for (int64_t position = begin; position < begin + batch_size_; ++position) {
    if (position >= samples_ && last_batch_ != "wrap") break;
    indices.push_back(permutation_[static_cast<size_t>(position % samples_)]);
  }
}

LoaderState EpochOrder::position(uint64_t epoch, uint64_t batch) const {
  LoaderState state;
  state.set_epoch(epoch);
  state.set_batch(batch);
  state.set_seed(seed_);
  state.set_samples(samples_);
  state.set_global_batch(global_batch());
  state.set_order(order_);
  state.set_last_batch(last_batch_);
  return state;
}

void EpochOrder::check_position(const LoaderState& state) const {
  require_same("seed", state.seed(), seed_);
  require_same("number of samples", state.samples(), samples_);
  require_same("global batch size", state.global_batch(), global_batch());
  require_same("order", state.order(), order_);
  require_same("last_batch", state.last_batch(), last_batch_);
  require(state.batch() < batches_, Code::kInvalid, "loader: the saved position is batch ",
          state.batch(), " of an epoch of ", batches_, " batches");
}

}  // namespace assay::data
