// The data sets that dataset-convert and loaders know by name.
//
// A data set is two functions: convert turns the files its authors publish into a folder of records
// (sdk/data/FORMAT.md), make_transform says how a record becomes a training sample.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "sdk/base/config.h"
#include "sdk/data/image_reader.h"
#include "sdk/data/manifest.h"
#include "sdk/data/transform.h"

namespace assay::datasets {

// Keys of a conversion that only some data sets have, declared as configurations are.
struct ConversionKeys {
  virtual ~ConversionKeys() = default;
  virtual void fields(ConfigFields& f) = 0;
};

struct ConvertOptions {
  // Where the published files lie: a folder in most cases; summary says what is expected.
  std::string source;
  // The folder to fill; created if need be.
  std::string output;
  // Files per split; 0 lets the data set choose.
  int shards = 0;
  // Replace what the folder holds, even another data set.
  bool overwrite = false;
  // Threads that read and check files, where a data set has use for them.
  int threads = 1;
  // For files of other formats than JPEG; may be empty.
  data::ImageReader read_image = {};
  // Called now and then; returning false cancels. What then stays in the folder, DatasetEntry says.
  data::ProgressFunction progress = {};
  // Of DatasetEntry::make_keys; null is all defaults.
  std::shared_ptr<ConversionKeys> keys = {};
};

struct DatasetEntry {
  std::string_view name;
  std::string_view summary;  // one line: content, expected source
  std::string_view licence;
  // Where Debian or another package puts the source; "" if nowhere.
  std::string_view default_source;
  // What its samples are, which decides what make_transform takes: "images" of one size,
  // "photographs", "objects", "micrographs", "masked_pairs", "sequences" or "windows".
  std::string_view samples;
  // Returns at once when the folder already holds the same data set from the same files. Stopped,
  // it leaves nothing, or what the next call continues from (data::WhenStopped). kNotFound, kFormat
  // for the source; kIo, kBusy, kInvalid for the output; kCancelled.
  data::DatasetManifest (*convert)(const ConvertOptions& options);
  // How records of the data set become samples. `config_json` is the JSON text of its transform's
  // configuration ("" is all defaults; ImageTransformConfig for images of one size,
  // JpegTransformConfig for photographs, DetectionTransformConfig for objects,
  // MicrographTransformConfig for isbi2012_em). kInvalid for
  // unknown keys and senseless values.
  data::Transform (*make_transform)(const data::DatasetManifest& manifest,
                                    std::string_view config_json);
  // The keys of its conversion at their defaults; null if it has none of its own.
  std::unique_ptr<ConversionKeys> (*make_keys)() = nullptr;
};

std::span<const DatasetEntry> dataset_entries();

// kNotFound, listing the names.
const DatasetEntry& find_dataset(std::string_view name);

// What every manifest begins with: the data set's name and licence.
data::DatasetManifest manifest_of(const DatasetEntry& entry);

// Defined in <name>.cpp.
extern const DatasetEntry kBertPretraining;
extern const DatasetEntry kCifar10;
extern const DatasetEntry kCoco;
extern const DatasetEntry kElectraPretraining;
extern const DatasetEntry kFashionMnist;
extern const DatasetEntry kImagenet;
extern const DatasetEntry kIsbi2012Em;
extern const DatasetEntry kSquad;

}  // namespace assay::datasets
