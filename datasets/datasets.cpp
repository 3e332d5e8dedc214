#include "datasets/datasets.h"

#include <vector>

#include "sdk/base/expect.h"
#include "sdk/data/manifest.pb.h"

namespace assay::datasets {

std::span<const DatasetEntry> dataset_entries() {
  static const DatasetEntry kEntries[] = {
      kFashionMnist, kCifar10, kImagenet,        kCoco,
      kIsbi2012Em,   kSquad,   kBertPretraining, kElectraPretraining};
  return kEntries;
}

const DatasetEntry& find_dataset(std::string_view name) {
  std::vector<std::string_view> known;
  for (const DatasetEntry& entry : dataset_entries()) {
    if (entry.name == name) return entry;
    known.push_back(entry.name);
  }
  fail_unknown("there is no data set", "name", name, known);
}

data::DatasetManifest manifest_of(const DatasetEntry& entry) {
  data::DatasetManifest manifest;
  manifest.set_dataset(std::string(entry.name));
  manifest.set_licence(std::string(entry.licence));
  return manifest;
}

}  // namespace assay::datasets
