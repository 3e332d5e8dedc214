// A folder with a data set in one of three forms: record files with a manifest (dataset.json, as
// dataset-convert makes them), MXNet's RecordIO (<split>.rec), or image files in
// <split>/<class>/. Labels of class folders are their positions in bytewise order, or those of
// classes.tsv ("label<TAB>folder") beside the splits.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/recipe_run/base/file.h"
#include "tools/recipe_run/data_lock/sample.h"

namespace reciperun {

struct ContainerSplit {
  std::string name;
  uint64_t samples = 0;
  std::string records;  // the manifest's digest of the records; "" without a manifest
};

class Container {
 public:
  virtual ~Container() = default;
  std::string form;     // "record files", "RecordIO", "image files": for messages
  std::string dataset;  // as the manifest names it; "" without one
  std::string licence;
  std::vector<ContainerSplit> splits;  // by name

  // Gives every sample of a split, in the order of the files. Error kDataMismatch, naming file and
  // record, for one that cannot be read.
  virtual void read(const std::string& split,
                    const std::function<void(RawSample&&)>& give) const = 0;
};

// Error kUsage if the folder holds none of the forms.
std::unique_ptr<Container> open_container(const fs::path& folder);

// One of the forms each; nullptr if the folder is not of it.
std::unique_ptr<Container> open_record_files(const fs::path& folder);
std::unique_ptr<Container> open_recordio(const fs::path& folder);
std::unique_ptr<Container> open_image_folders(const fs::path& folder);

}  // namespace reciperun
