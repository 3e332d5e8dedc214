// Conversions of data sets that are small enough to be held in memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "datasets/datasets.h"
#include "sdk/data/dataset_writer.h"

namespace assay::datasets {

struct HeldSplit {
  std::string name;
  int64_t records = 0;
  data::DatasetWriter::PayloadFunction payload_of;
};

// Plans and writes the splits: in options.shards files each, or, where that is 0, in `shards`, but
// in no more than it has records.
data::DatasetManifest write_held(const ConvertOptions& options, data::DatasetManifest plan,
                                 std::span<const HeldSplit> splits, int shards);

}  // namespace assay::datasets
