// Shuffling through a buffer: what is drawn leaves its place to the next sample of the rank's
// shard.
#include "sdk/data/stream.h"

#include <algorithm>
#include <utility>

#include "sdk/data/streams.h"

namespace assay::data {

ShuffledStream::ShuffledStream(int64_t samples, int rank, int world_size, int64_t buffer,
                               uint64_t seed, Sharding sharding)
    : samples_(static_cast<uint64_t>(samples)),
      rank_(static_cast<uint64_t>(rank)),
      world_size_(static_cast<uint64_t>(world_size)),
      sharding_(sharding),
      capacity_(static_cast<size_t>(buffer)),
      seed_(seed),
      random_(seed, kStreamStream) {
  restart();
}

ShuffledStream::Shard ShuffledStream::shard_of(uint32_t turn) const {
  if (sharding_ == Sharding::kStrided) return {rank_, world_size_, samples_};
  const uint64_t part = (rank_ + turn) % world_size_;
  return {samples_ * part / world_size_, 1, samples_ * (part + 1) / world_size_};
}

// The buffer starts full, in order. A buffer larger than the shard takes it in again and again.
void ShuffledStream::restart() {
  random_ = PhiloxStream(seed_, kStreamStream, rank_);
  turn_ = 0;
  drawn_ = 0;
  shard_ = shard_of(turn_);
  buffer_.clear();
  while (buffer_.size() < capacity_) buffer_.push_back(next_in());
}

Draw ShuffledStream::next_in() {
  const Draw draw{static_cast<uint32_t>(shard_.begin), turn_};
  shard_.begin += shard_.step;
  if (shard_.begin >= shard_.end) shard_ = shard_of(++turn_);
  return draw;
}

Draw ShuffledStream::draw() {
  ++drawn_;
  Draw& taken = buffer_[random_.below(static_cast<uint32_t>(buffer_.size()))];
  return last_ = std::exchange(taken, next_in());
}

Draw ShuffledStream::at(uint64_t position) {
  // The last draw once more, without a replay.
  if (position + 1 == drawn_) return last_;
  if (position < drawn_) restart();
  while (drawn_ < position) draw();
  return draw();
}

void ShuffledStream::seek(uint64_t position, const std::atomic<bool>& cancelled) {
  constexpr uint64_t kDrawsAtOnce = uint64_t{1} << 16;  // a fraction of a millisecond
  if (position < drawn_) restart();
  while (drawn_ < position && !cancelled) {
    for (uint64_t left = std::min(position - drawn_, kDrawsAtOnce); left > 0; --left) draw();
  }
}

}  // namespace assay::data
