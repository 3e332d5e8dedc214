// Writing a data set so that it is there whole or not at all.
//
// Shards appear under their names one by one, the manifest last. A failed or cancelled conversion
// removes what it wrote; one that was killed leaves files that are not a data set, and the next
// conversion into the folder replaces them. A lock keeps two conversions apart.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sdk/data/manifest.h"

namespace assay::data {

class DatasetWriter {
 public:
  // Creates the folder if need be. kBusy when another process is converting into it. kInvalid when
  // it holds another data set, or this one from other sources or for other shards, unless
  // `overwrite`. `plan` names data set, licence, classes and sources; its splits give name, number
  // of records, and the shard names and records to be.
  DatasetWriter(const std::string& folder, DatasetManifest plan, bool overwrite);
  ~DatasetWriter();
  DatasetWriter(const DatasetWriter&) = delete;

  // The folder already holds exactly what was planned: nothing is left to do.
  bool complete() const { return complete_; }
  // The manifest in the folder; final once complete() or after finish().
  const DatasetManifest& manifest() const { return manifest_; }

  // Writes a split: calls payload_of(index, payload) for each record in order, which replaces
  // `payload`. Reports progress with the split's name.
  using PayloadFunction = std::function<void(int64_t index, std::string& payload)>;
  void write_split(const std::string& name, const PayloadFunction& payload_of,
                   const ProgressFunction& progress);
  // kInternal when a planned split was not written.
  void finish();

 private:
  void remove_leftovers();

  std::string folder_;
  File lock_;
  DatasetManifest manifest_;
  std::vector<std::string> written_;
  bool complete_ = false;
};

// Adds a split of `records` in `shards` nearly equal parts, "<name>-00000-of-00004.tfrecord".
void plan_split(DatasetManifest& plan, const std::string& name, int64_t records, int shards);

}  // namespace assay::data
