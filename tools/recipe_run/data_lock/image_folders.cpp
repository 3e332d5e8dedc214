// Image files in <split>/<class>/.
#include <algorithm>
#include <cctype>
#include <map>

#include "tools/recipe_run/base/error.h"
#include "tools/recipe_run/base/text.h"
#include "tools/recipe_run/data_lock/container.h"

namespace reciperun {
namespace {

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().filename().string()[0] != '.') out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

bool is_image(const fs::path& path) {
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension == ".jpeg" || extension == ".jpg" || extension == ".png";
}

using Labels = std::map<std::string, std::string>;  // of class folders

Labels labels_of(const fs::path& folder, const std::vector<fs::path>& classes) {
  Labels labels;
  std::error_code ignored;
  const fs::path list = folder / "classes.tsv";
  if (!fs::exists(list, ignored)) {
    for (const fs::path& path : classes)
      labels.emplace(path.filename().string(), std::to_string(labels.size()));
    return labels;
  }
  for (const std::string& line : split(read_file(list), '\n')) {
    const std::vector<std::string> cells = split(line, '\t');
    const bool number =
        !cells[0].empty() && cells[0].find_first_not_of("0123456789") == std::string::npos;
    if (number && cells.size() >= 2) labels[cells[1]] = cells[0];
  }
  return labels;
}

struct ImageFile {
  fs::path path;
  std::string label;
};

class ImageFolders : public Container {
 public:
  explicit ImageFolders(const fs::path& folder) : folder_(folder) {
    form = "image files";
    for (const fs::path& split : sorted_entries(folder)) {
      std::vector<ImageFile> files = images_in(split);
      if (files.empty()) continue;
      const std::string name = split.filename().string();
      splits.push_back({name, files.size(), ""});
      files_[name] = std::move(files);
    }
  }

  void read(const std::string& split, const std::function<void(RawSample&&)>& give) const override {
    for (const ImageFile& file : files_.at(split)) {
      RawSample sample;
      sample.where = file.path.lexically_relative(folder_).string();
      sample.label = file.label;
      sample.file = read_file(file.path);
      give(std::move(sample));
    }
  }

 private:
  std::vector<ImageFile> images_in(const fs::path& split) const {
    std::error_code ignored;
    std::vector<fs::path> classes = sorted_entries(split);
    std::erase_if(classes, [&](const fs::path& p) { return !fs::is_directory(p, ignored); });
    const Labels labels = labels_of(folder_, classes);
    std::vector<ImageFile> out;
    for (const fs::path& folder : classes) {
      const auto label = labels.find(folder.filename().string());
      if (label == labels.end()) {
        throw Error(Exit::kDataMismatch, folder.string() + " is no class of classes.tsv",
                    "add its line 'label<TAB>folder', or take the folder away");
      }
      for (const fs::path& file : sorted_entries(folder)) {
        if (is_image(file)) out.push_back({file, label->second});
      }
    }
    return out;
  }

  fs::path folder_;
  std::map<std::string, std::vector<ImageFile>> files_;  // by split
};

}  // namespace

std::unique_ptr<Container> open_image_folders(const fs::path& folder) {
  auto container = std::make_unique<ImageFolders>(folder);
  if (container->splits.empty()) return nullptr;
  return container;
}

}  // namespace reciperun
