#include "sdk/data/stream.h"

#include <algorithm>
#include <utility>

#include "sdk/data/streams.h"

namespace assay::data {

ShuffledStream::ShuffledStream(int64_t samples, int rank, int world_size, int64_t buffer,
                               uint64_t seed)
    : rank_(static_cast<uint32_t>(rank)),
      world_size_(static_cast<uint32_t>(world_size)),
      shard_(static_cast<uint32_t>((samples - rank + world_size - 1) / world_size)),
      capacity_(static_cast<size_t>(buffer)),
      seed_(seed),
      random_(seed, kStreamStream) {
  restart();
}

void ShuffledStream::restart() {
  random_ = PhiloxStream(seed_, kStreamStream, rank_);
  entered_ = drawn_ = 0;
  buffer_.clear();
  while (buffer_.size() < capacity_) buffer_.push_back(next_in());
}

Draw ShuffledStream::next_in() {
  const uint64_t place = entered_ % shard_, pass = entered_ / shard_;
  ++entered_;
  return {rank_ + world_size_ * static_cast<uint32_t>(place), static_cast<uint32_t>(pass)};
}

Draw ShuffledStream::at(uint64_t position) {
  if (position + 1 == drawn_) return last_;
  if (position < drawn_) restart();
  while (drawn_ <= position) {
    Draw& taken = buffer_[random_.below(static_cast<uint32_t>(buffer_.size()))];
    last_ = std::exchange(taken, next_in());
    ++drawn_;
  }
  return last_;
}

}  // namespace assay::data
