#include "datasets/held_splits.h"

#include <algorithm>

namespace assay::datasets {

data::DatasetManifest write_held(const ConvertOptions& options, data::DatasetManifest plan,
                                 std::span<const HeldSplit> splits, int shards) {
  for (const HeldSplit& split : splits) {
    const auto chosen = static_cast<int>(std::min<int64_t>(shards, split.records));
    data::plan_split(plan, split.name, split.records,
                     options.shards != 0 ? options.shards : chosen);
  }
  data::DatasetWriter writer(options.output, std::move(plan), options.overwrite);
  if (writer.complete()) return writer.manifest();
  for (const HeldSplit& split : splits)
    writer.write_split(split.name, split.payload_of, options.progress);
  writer.finish();
  return writer.manifest();
}

}  // namespace assay::datasets
