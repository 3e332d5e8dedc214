// Which image files make up a split and what their labels are: class folders, or a list.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace assay::datasets {

// The classes, in the order of their labels.
class ClassMap {
 public:
  int64_t size() const { return static_cast<int64_t>(names_.size()); }
  // "tench"; the folders where nothing better is known.
  const std::vector<std::string>& names() const { return names_; }
  // Of a class folder, "n01440764". kFormat, naming `where`, for a folder that is no class.
  int64_t label_of(const std::string& folder, const std::string& where) const;

  // The class of the next label; `folder` is none yet.
  void add(const std::string& folder, std::string name);

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, int64_t> labels_;  // by folder
};

// classes.tsv: a line "index<TAB>folder<TAB>name" per class, in any order, the name optional, a
// heading allowed. kFormat names the line: an index that is missing or comes twice, a folder that
// comes twice.
ClassMap read_class_map(const std::string& path);

// The class folders in `folder`, sorted bytewise, as classes.
ClassMap classes_of_folders(const std::string& folder);

struct ImageEntry {
  uint64_t id = 0;
  int64_t label = 0;
  std::string path;  // in the folder of the source
  uint64_t bytes = 0;
};

// The images in <source>/<split>/<class folder>/, in the order of MXNet's im2rec: numbered along
// the sorted folders and files, then shuffled by Python's generator seeded with 100. Files that are
// not .jpeg, .jpg or .png are passed over. kFormat for image files outside of class folders, for
// class folders without images, for folders that are no class.
std::vector<ImageEntry> list_class_folders(const std::string& source, const std::string& split,
                                           const ClassMap& classes);

// A list as im2rec writes it, in its order: "number<TAB>label<TAB>path", with paths in `source` or
// in <source>/<split>. kFormat names the line; kNotFound for a file that is not there.
std::vector<ImageEntry> read_image_list(const std::string& source, const std::string& split);

// SHA-256 over the entries: number, label, path and size of each.
std::string entries_sha256(const std::vector<ImageEntry>& entries);

}  // namespace assay::datasets
