// Look-ups in a folder first, then in its archives by libzip.
#include "datasets/source_files.h"

#include <zip.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <unordered_map>

#include "sdk/base/error.h"
#include "sdk/base/file.h"

namespace assay::datasets {
namespace {

// Names come from files of others: none leads out of the folder.
bool stays_inside(const std::string& name) {
  const std::filesystem::path path(name);
  return !name.empty() && path.is_relative() && std::ranges::count(path, "..") == 0 &&
         name.find('\0') == std::string::npos;
}

struct DiscardZip {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct CloseEntry {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};

}  // namespace

class SourceFiles::Archive {
 public:
  explicit Archive(std::string path) : path_(std::move(path)) {
    int code = 0;
    zip_.reset(zip_open(path_.c_str(), ZIP_RDONLY, &code));
    if (zip_ == nullptr) {
      zip_error_t error;
      zip_error_init_with_code(&error, code);
      std::string reason = zip_error_strerror(&error);
      zip_error_fini(&error);
      fail(Code::kFormat, cat(path_, " cannot be opened as a zip archive: ", reason));
    }
    const zip_int64_t count = zip_get_num_entries(zip_.get(), 0);
    for (zip_int64_t i = 0; i < count; ++i) {
      zip_stat_t stat{};
      const auto index = static_cast<zip_uint64_t>(i);
      require(zip_stat_index(zip_.get(), index, 0, &stat) == 0 && (stat.valid & ZIP_STAT_NAME) &&
                  (stat.valid & ZIP_STAT_SIZE),
              Code::kFormat, path_, ": entry ", i, " is damaged");
      entries_[stat.name] = {index, stat.size};
    }
  }

  bool has(const std::string& name) const { return entries_.contains(name); }
  uint64_t size(const std::string& name) const { return entries_.at(name).bytes; }

  std::string read(const std::string& name) const {
    const auto [index, size] = entries_.at(name);
    std::string bytes(size, '\0');
    const std::lock_guard lock(mutex_);  // an archive is for one thread at a time
    const std::unique_ptr<zip_file_t, CloseEntry> file(zip_fopen_index(zip_.get(), index, 0));
    require(file != nullptr, Code::kFormat, path_, ", ", name, ": ", zip_strerror(zip_.get()));
    uint64_t done = 0;
    zip_int64_t got = 0;
    while (done < size && (got = zip_fread(file.get(), bytes.data() + done, size - done)) > 0)
      done += static_cast<uint64_t>(got);
    // The checksum is compared when the end is read.
    char beyond = 0;
    if (got >= 0 && done == size) got = zip_fread(file.get(), &beyond, 1);
    require(got == 0 && done == size, Code::kFormat, path_, ", ", name, ": ",
            got < 0 ? zip_file_strerror(file.get()) : "it has another size than its entry says");
    return bytes;
  }

 private:
  struct Entry {
    zip_uint64_t index;
    uint64_t bytes;
  };
  std::string path_;
  std::unique_ptr<zip_t, DiscardZip> zip_;
  std::unordered_map<std::string, Entry> entries_;
  mutable std::mutex mutex_;
};

SourceFiles::SourceFiles(const std::string& path) : path_(path) {
  require(path_exists(path), Code::kNotFound, path, " is not there");
  is_folder_ = is_directory(path);
  if (!is_folder_) archives_.push_back(std::make_unique<Archive>(path));
  if (!is_folder_) return;
  for (const std::string& archive : list_files(path, "*.zip"))
    archives_.push_back(std::make_unique<Archive>(archive));
}

SourceFiles::~SourceFiles() = default;

const SourceFiles::Archive* SourceFiles::archive_of(const std::string& name) const {
  for (const auto& archive : archives_)
    if (archive->has(name)) return archive.get();
  return nullptr;
}

bool SourceFiles::has(const std::string& name) const {
  if (!stays_inside(name)) return false;
  const std::string path = join_path(path_, name);
  return (is_folder_ && path_exists(path) && !is_directory(path)) || archive_of(name) != nullptr;
}

uint64_t SourceFiles::size(const std::string& name) const {
  require(has(name), Code::kNotFound, path_, " holds no ", name);
  const std::string path = join_path(path_, name);
  if (is_folder_ && path_exists(path)) return File::open_read(path).size();
  return archive_of(name)->size(name);
}

std::string SourceFiles::read(const std::string& name, uint64_t max_bytes) const {
  const uint64_t bytes = size(name);
  require(bytes <= max_bytes, Code::kFormat, path_, ", ", name, " has ", bytes,
          " bytes, expected at most ", max_bytes);
  const std::string path = join_path(path_, name);
  if (is_folder_ && path_exists(path)) return read_file(path, max_bytes);
  return archive_of(name)->read(name);
}

}  // namespace assay::datasets
