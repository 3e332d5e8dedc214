// Published files, unpacked or as the zip archives they are published in.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace assay::datasets {

// What lies in a folder and in the zip archives directly in it, or in one archive. Names are paths
// in the folder or in an archive: "train2017/000000000009.jpg". Any number of threads may read.
class SourceFiles {
 public:
  // kNotFound; kFormat for an archive that cannot be opened.
  explicit SourceFiles(const std::string& path);
  ~SourceFiles();
  SourceFiles(const SourceFiles&) = delete;

  const std::string& path() const { return path_; }
  // Of no name that leads out of the folder.
  bool has(const std::string& name) const;
  uint64_t size(const std::string& name) const;  // bytes; kNotFound
  // kNotFound; kFormat for more than `max_bytes` and for a damaged archive.
  std::string read(const std::string& name, uint64_t max_bytes) const;

 private:
  class Archive;
  const Archive* archive_of(const std::string& name) const;

  std::string path_;
  bool is_folder_ = false;
  std::vector<std::unique_ptr<Archive>> archives_;
};

}  // namespace assay::datasets
