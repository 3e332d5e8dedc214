#include "datasets/datasets.h"

#include "sdk/base/error.h"

namespace assay::datasets {

std::span<const DatasetEntry> dataset_entries() {
  static const DatasetEntry entries[] = {kFashionMnist, kCifar10, kImagenet, kIsbi2012Em};
  return entries;
}

const DatasetEntry& find_dataset(std::string_view name) {
  std::string names;
  for (const DatasetEntry& entry : dataset_entries()) {
    if (entry.name == name) return entry;
    names += cat(names.empty() ? "" : ", ", entry.name);
  }
  fail(Code::kNotFound, cat("there is no data set \"", name, "\"; there are ", names));
}

}  // namespace assay::datasets
