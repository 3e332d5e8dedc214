// A shuffled stream without epochs, as TensorFlow's shard, repeat and shuffle make it.
#pragma once

#include <cstdint>
#include <vector>

#include "sdk/base/philox.h"

namespace assay::data {

// A sample, and how often it was drawn before: what its augmentation is drawn from.
struct Draw {
  uint32_t sample = 0;
  uint32_t pass = 0;
};

// The samples that belong to this rank (those of number rank, rank + world_size, ...), repeated for
// ever, go through a buffer: each draw takes a random one out of it and lets the next one in. With
// a buffer smaller than the samples the order is only mixed; with a larger one a sample may come
// again before others came once.
class ShuffledStream {
 public:
  // samples >= world_size, buffer >= 1
  ShuffledStream(int64_t samples, int rank, int world_size, int64_t buffer, uint64_t seed);

  // Draw number `position`. Going on costs nothing; going back replays from the beginning.
  Draw at(uint64_t position);

 private:
  void restart();
  Draw next_in();

  uint32_t rank_, world_size_;
  uint32_t shard_;  // samples of this rank
  size_t capacity_;
  uint64_t seed_;
  PhiloxStream random_;
  std::vector<Draw> buffer_;
  uint64_t entered_ = 0, drawn_ = 0;
  Draw last_;
};

}  // namespace assay::data
