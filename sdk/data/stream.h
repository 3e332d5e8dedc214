// A shuffled stream without epochs, as TensorFlow's shard, repeat and shuffle make it.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "sdk/base/philox.h"

namespace assay::data {

// A sample, and how often it was drawn before: what its augmentation is drawn from.
struct Draw {
  uint32_t sample = 0;
  uint32_t pass = 0;
};

// Which samples belong to a rank.
enum class Sharding {
  kStrided,   // those of number rank, rank + world_size, ..., again and again
  kRotating,  // part number rank of world_size contiguous parts, then the next part, and so on, as
              // NVIDIA DALI's readers move on at the end of an epoch
};

// The samples that belong to this rank, repeated forever, go through a buffer: each draw takes a
// random one out of it and lets the next one in. With a buffer smaller than the samples the order
// is only mixed; with a larger one a sample may come again before others came once.
class ShuffledStream {
 public:
  // Draws of a stream: as many as Philox has numbers for it.
  static constexpr uint64_t kMaxDraws = uint64_t{1} << 34;

  // samples >= world_size, buffer >= 1
  ShuffledStream(int64_t samples, int rank, int world_size, int64_t buffer, uint64_t seed,
                 Sharding sharding = Sharding::kStrided);

  // Draw number `position` < kMaxDraws. Going on costs nothing; going back replays from the
  // beginning, and going far takes some 5 ns for each draw passed over.
  Draw at(uint64_t position);
  // Passes over the draws before `position`; gives up in the middle once `cancelled`.
  void seek(uint64_t position, const std::atomic<bool>& cancelled);

 private:
  // Samples begin, begin + step, ... below end.
  struct Shard {
    uint64_t begin, step, end;
  };
  Shard shard_of(uint32_t turn) const;
  void restart();
  Draw next_in();
  Draw draw();

  uint64_t samples_, rank_, world_size_;
  Sharding sharding_;
  size_t capacity_;
  uint64_t seed_;
  PhiloxStream random_;
  std::vector<Draw> buffer_;
  uint32_t turn_ = 0;  // shards that have entered the buffer
  Shard shard_{};      // what is left of the one that enters now
  uint64_t drawn_ = 0;
  Draw last_;
};

}  // namespace assay::data
