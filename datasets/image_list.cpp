// Class maps, walks through class folders, and im2rec's lists. All orders are fixed by names, never
// by the file system.
#include "datasets/image_list.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <optional>
#include <unordered_set>
#include <utility>

#include "datasets/python_random.h"
#include "sdk/base/error.h"
#include "sdk/base/file.h"
#include "sdk/base/sha256.h"

namespace assay::datasets {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxListBytes = uint64_t{1} << 31;

std::vector<std::string> split_at(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
  }
  return parts;
}

// The lines without their ends; an end of the file without one counts too.
std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines = split_at(read_file(path, kMaxListBytes), '\n');
  for (std::string& line : lines) {
    if (line.ends_with('\r')) line.pop_back();
  }
  if (lines.back().empty()) lines.pop_back();
  return lines;
}

template <class T>
std::optional<T> number_of(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || after != end) return std::nullopt;
  return value;
}

// Labels of lists are whole numbers, written with or without a fraction of zeros.
std::optional<int64_t> label_of_text(const std::string& text) {
  const auto value = number_of<double>(text);
  if (!value || !(*value >= 0 && *value < 1e9) ||
      *value != static_cast<double>(static_cast<int64_t>(*value))) {
    return std::nullopt;
  }
  return static_cast<int64_t>(*value);
}

bool is_image_name(const std::string& name) {
  std::string ending = fs::path(name).extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  });
  return ending == ".jpeg" || ending == ".jpg" || ending == ".png";
}

// The folders and the image files in a folder.
FolderListing list_images(const std::string& folder) {
  FolderListing listing = list_folder(folder);
  std::erase_if(listing.files, [](const std::string& name) { return !is_image_name(name); });
  return listing;
}

std::vector<std::string> class_folders(const std::string& folder) {
  FolderListing listing = list_images(folder);
  require(listing.files.empty(), Code::kFormat,
          join_path(folder, listing.files.empty() ? "" : listing.files[0]),
          " lies outside of the class folders; move each image into the folder of its class, or "
          "list them in ",
          folder, ".lst");
  require(!listing.folders.empty(), Code::kFormat, folder, " holds no class folders");
  return std::move(listing.folders);
}

uint64_t file_bytes(const std::string& path) {
  std::error_code error;
  const uint64_t bytes = fs::file_size(path, error);
  if (error) fail_errno("looking at", path, error.value());
  return bytes;
}

}  // namespace

int64_t ClassMap::label_of(const std::string& folder, const std::string& where) const {
  const auto found = labels_.find(folder);
  require(found != labels_.end(), Code::kFormat, where, ": \"", folder, "\" is none of the ",
          size(), " classes; remove the folder, or name the class in classes.tsv");
  return found->second;
}

void ClassMap::add(const std::string& folder, std::string name) {
  labels_.emplace(folder, size());
  names_.push_back(std::move(name));
}

ClassMap read_class_map(const std::string& path) {
  const std::vector<std::string> lines = lines_of(path);
  std::vector<std::array<std::string, 2>> by_index(lines.size());
  std::unordered_set<std::string> folders;
  size_t classes = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    const auto fields = split_at(lines[i], '\t');
    const auto index = number_of<size_t>(fields[0]);
    if (i == 0 && !index) continue;  // a heading
    require(index.has_value() && fields.size() >= 2 && !fields[1].empty(), Code::kFormat, path,
            " line ", i + 1, ": expected index, folder and name with tabs between them");
    require(*index < lines.size() && by_index[*index][0].empty(), Code::kFormat, path, " line ",
            i + 1, ": index ", *index,
            " comes twice or leaves a gap; expected 0, 1, 2, ... once each");
    require(folders.insert(fields[1]).second, Code::kFormat, path, " line ", i + 1, ": \"",
            fields[1], "\" comes twice");
    by_index[*index] = {fields[1], fields.size() > 2 ? fields[2] : fields[1]};
    classes = std::max(classes, *index + 1);
  }
  ClassMap map;
  for (size_t index = 0; index < classes; ++index) {
    auto& [folder, name] = by_index[index];
    require(!folder.empty(), Code::kFormat, path, ": index ", index, " is missing");
    map.add(folder, std::move(name));
  }
  require(
      classes > 0, Code::kFormat, path,
      " names no classes; it has a line with index, folder and name of each, tabs between them");
  return map;
}

ClassMap classes_of_folders(const std::string& folder) {
  ClassMap map;
  for (const std::string& name : class_folders(folder)) map.add(name, name);
  return map;
}

std::vector<ImageEntry> list_class_folders(const std::string& source, const std::string& split,
                                           const ClassMap& classes) {
  const std::string folder = join_path(source, split);
  std::vector<ImageEntry> walk;
  for (const std::string& name : class_folders(folder)) {
    const int64_t label = classes.label_of(name, folder);
    const FolderListing listing = list_images(join_path(folder, name));
    require(!listing.files.empty() && listing.folders.empty(), Code::kFormat,
            join_path(folder, name),
            listing.folders.empty() ? " holds no images" : " holds folders",
            "; a class folder holds .jpeg, .jpg or .png files");
    for (const std::string& image : listing.files) {
      const std::string path = join_path(join_path(split, name), image);
      walk.push_back({walk.size(), label, path, file_bytes(join_path(source, path))});
    }
  }
  constexpr uint32_t kSeedOfIm2rec = 100;
  std::vector<ImageEntry> shuffled;
  shuffled.reserve(walk.size());
  for (const int64_t index : python_shuffled(kSeedOfIm2rec, static_cast<int64_t>(walk.size()))) {
    shuffled.push_back(std::move(walk[static_cast<size_t>(index)]));
  }
  return shuffled;
}

std::vector<ImageEntry> read_image_list(const std::string& source, const std::string& split) {
  const std::string list = join_path(source, split + ".lst");
  std::vector<ImageEntry> entries;
  std::string prefix;
  const std::vector<std::string> lines = lines_of(list);
  for (size_t i = 0; i < lines.size(); ++i) {
    const auto fields = split_at(lines[i], '\t');
    require(fields.size() == 3, Code::kFormat, list, " line ", i + 1, " has ", fields.size(),
            " fields, expected number, label and path with tabs between them");
    const auto id = number_of<uint64_t>(fields[0]);
    const auto label = label_of_text(fields[1]);
    require(id && label, Code::kFormat, list, " line ", i + 1, ": \"", id ? fields[1] : fields[0],
            "\" is no ", id ? "label" : "number", ", expected a whole number from 0");
    require(!fields[2].empty() && fields[2][0] != '/' &&
                ("/" + fields[2] + "/").find("/../") == std::string::npos,
            Code::kFormat, list, " line ", i + 1, ": \"", fields[2], "\" is no path inside of ",
            source);
    // Which of the two folders paths are in, the first line decides for all.
    if (i == 0 && !path_exists(join_path(source, fields[2])) &&
        path_exists(join_path(join_path(source, split), fields[2]))) {
      prefix = split + "/";
    }
    const std::string path = prefix + fields[2];
    require(path_exists(join_path(source, path)), Code::kNotFound, list, " line ", i + 1,
            ": there is no ", join_path(source, path));
    entries.push_back({*id, *label, path, file_bytes(join_path(source, path))});
  }
  require(!entries.empty(), Code::kFormat, list, " lists no images");
  return entries;
}

std::string entries_sha256(const std::vector<ImageEntry>& entries) {
  Sha256 sum;
  for (const ImageEntry& entry : entries) {
    sum.update(cat(entry.id, "\t", entry.label, "\t", entry.path, "\t", entry.bytes, "\n"));
  }
  return sum.hex();
}

}  // namespace assay::datasets
