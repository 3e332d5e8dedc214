// Reading a converted data set: its manifest, its splits, its integrity.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "sdk/base/sha256.h"
#include "sdk/data/record_source.h"

namespace assay::data {

class DatasetManifest;  // these three: manifest.proto
class DatasetSplit;
class SourceFile;

inline constexpr uint32_t kManifestVersion = 1;
inline constexpr std::string_view kManifestName = "dataset.json";
inline constexpr std::string_view kConversionLogName = "conversion.json";

// Work done so far. Return false to cancel: the work stops with kCancelled.
struct Progress {
  std::string_view phase;  // "train", "checking test"
  int64_t done = 0;        // records
  int64_t total = 0;
};
using ProgressFunction = std::function<bool(const Progress&)>;

// Calls `progress` if there is one; fails with kCancelled when it says so.
void report_progress(const ProgressFunction& progress, const Progress& state);

// kNotFound without dataset.json, kFormat or kVersion for one that cannot be used.
DatasetManifest read_manifest(const std::string& folder);

// kNotFound, listing the splits.
const DatasetSplit& find_split(const DatasetManifest& manifest, const std::string& name);

// The records of one split, in order. Checks that each shard is there with the size and the number
// of records of the manifest, without reading the records.
std::shared_ptr<const RecordSource> open_split(const std::string& folder,
                                               const DatasetManifest& manifest,
                                               const std::string& name);

// A setting of the conversion as text, or as a number; kFormat if the manifest has none.
const std::string& find_setting(const DatasetManifest& manifest, const std::string& key);
int64_t find_number(const DatasetManifest& manifest, const std::string& key);

// A file that lies beside the records. kNotFound if the manifest lists none of that name; kFormat
// if its size or digest is another.
std::string read_attached(const std::string& folder, const DatasetManifest& manifest,
                          const std::string& name);

// Reads everything and compares every checksum and digest: kFormat for the first that differs.
void verify_dataset(const std::string& folder, const ProgressFunction& progress);

// The digest of FORMAT.md.
class ContentDigest {
 public:
  void add(std::string_view payload);
  std::string hex() { return sum_.hex(); }

 private:
  Sha256 sum_;
};

// SHA-256 and size of a file read in pieces.
SourceFile describe_source(const std::string& path);

}  // namespace assay::data
