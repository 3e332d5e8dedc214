// The configuration of a loader, read from JSON text. assay_data.h says the same to callers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sdk/base/config.h"

namespace assay::data {

struct LoaderConfig {
  int64_t batch_size = kNotGiven<int64_t>;
  uint64_t seed = 0;
  // "shuffled": a new order in each epoch, a function of seed and epoch alone.
  // "sequential": the order of the files, for evaluation.
  // "stream": no epochs; this rank's samples (number rank, rank + world_size, ...) repeat forever
  // through a shuffle buffer (`buffer`). An epoch is then a mere count of batches.
  // "rotating": as "stream", but this rank takes part number `rank` of `world_size` contiguous
  // parts, then the next part, and so on, as NVIDIA DALI's readers do.
  std::string order = "shuffled";
  // What happens when the samples do not fill the last batch of an epoch:
  //   "drop"  those samples are left out of this epoch
  //   "pad"   the batch is filled up with padding, and tells how many rows are valid
  //   "wrap"  the batch is filled up from the beginning of the epoch's order
  std::string last_batch = "drop";
  uint64_t epochs = 0;
  // Data parallel: global batch k holds positions [k B W, (k + 1) B W) of the order, and rank r its
  // r-th part of B.
  int32_t rank = 0;
  int32_t world_size = 1;
  int32_t workers = 2;
  int32_t prefetch = 4;
  int32_t cache_mib = 512;
  std::optional<int64_t> buffer;
  std::vector<int64_t> record;
  int64_t accumulate = 1;
  void fields(ConfigFields& f);
};

// Every default filled in: what reports show.
LoaderConfig with_defaults(LoaderConfig config);

// Checks a configuration with its defaults; kInvalid names the key at fault. Whether it fits the
// data is EpochOrder's to say.
void check(const LoaderConfig& config);

}  // namespace assay::data
