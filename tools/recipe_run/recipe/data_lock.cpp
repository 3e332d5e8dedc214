// Reads and writes data.lock, computes an entry from a folder, and compares two entries.
#include "tools/recipe_run/recipe/data_lock.h"

#include <fmt/format.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <map>
#include <set>

#include "tools/recipe_run/recipe/parse.h"
#include "tools/recipe_run/util/error.h"
#include "tools/recipe_run/util/file.h"

namespace reciperun {
namespace {

namespace pb = google::protobuf;

constexpr uint32_t kDataLockSchema = 1;

bool is_hidden(const fs::path& path) { return path.filename().string()[0] == '.'; }

// Every file below `folder`, hidden ones left out, by path.
std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (auto it = fs::recursive_directory_iterator(folder); it != fs::end(it); ++it) {
    if (is_hidden(it->path()) && it->is_directory()) it.disable_recursion_pending();
    if (!is_hidden(it->path()) && it->is_regular_file()) files.push_back(it->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

const data::Split* find_split(const data::Entry& entry, const std::string& name) {
  for (const data::Split& split : entry.split()) {
    if (split.name() == name) return &split;
  }
  return nullptr;
}

std::string split_key(const v1::DataRef& data) { return data.lock() + "/" + data.split(); }

}  // namespace

data::Lock read_lock(const fs::path& file) {
  data::Lock lock;
  if (!is_there(file)) return lock;
  if (const auto problem = read_text(read_file(file), lock))
    throw Error(Exit::kUsage,
                fmt::format("{}:{}: {}", file.string(), problem->place(), problem->what),
                "'recipe-run data lock NAME' writes it anew");
  require(lock.schema() <= kDataLockSchema, file.string() + ": of a newer version",
          "use a newer recipe-run");
  return lock;
}

std::string lock_text(const data::Lock& lock) {
  std::string text;
  pb::TextFormat::PrintToString(lock, &text);
  return text;
}

const data::Entry* find_entry(const data::Lock& lock, const std::string& id) {
  for (const data::Entry& entry : lock.entry()) {
    if (entry.id() == id) return &entry;
  }
  return nullptr;
}

void write_entry(const fs::path& file, const data::Entry& entry) {
  data::Lock old = read_lock(file);
  data::Lock lock;
  lock.set_schema(kDataLockSchema);
  for (data::Entry& other : *old.mutable_entry()) {
    if (other.id() != entry.id()) *lock.add_entry() = std::move(other);
  }
  *lock.add_entry() = entry;
  std::sort(lock.mutable_entry()->begin(), lock.mutable_entry()->end(),
            [](const data::Entry& a, const data::Entry& b) { return a.id() < b.id(); });
  write_file_atomic(file,
                    "# Which data the recipes mean; written by 'recipe-run data lock', checked by "
                    "'recipe-run data verify' and every run.\n" +
                        lock_text(lock));
}

data::Lock entries_of(const data::Lock& lock, const v1::Recipe& recipe) {
  std::set<std::string> ids;
  for (const v1::DataRef& data : recipe.data()) ids.insert(data.lock());
  data::Lock out;
  out.set_schema(kDataLockSchema);
  for (const data::Entry& entry : lock.entry()) {
    if (ids.contains(entry.id())) *out.add_entry() = entry;
  }
  return out;
}

data::Entry entry_of(const std::string& id, const fs::path& folder, data::Entry described,
                     assay::tools::Progress& progress, const std::atomic<bool>& stop) {
  data::Entry entry = std::move(described);
  entry.set_id(id);
  const std::vector<fs::path> files = files_below(folder);
  uint64_t bytes = 0;
  for (const fs::path& file : files) bytes += fs::file_size(file);
  progress.begin(id);
  for (const fs::path& path : files) {
    if (stop.load()) throw Error(Exit::kInterrupted, "stopped while reading the data");
    data::File& file = *entry.add_file();
    file.set_path(path.lexically_relative(folder).generic_string());
    file.set_bytes(fs::file_size(path));
    progress.update(
        static_cast<double>(entry.bytes()) / static_cast<double>(std::max(bytes, uint64_t{1})),
        file.path());
    file.set_sha256(sha256_of_file(path));
    entry.set_bytes(entry.bytes() + file.bytes());
  }
  entry.set_files(files.size());
  return entry;
}

std::vector<std::string> lock_differences(const data::Entry& locked, const data::Entry& found) {
  std::vector<std::string> out;
  for (const data::Split& split : locked.split()) {
    const data::Split* there = find_split(found, split.name());
    if (there == nullptr) {
      out.push_back(fmt::format("split {} is missing", split.name()));
    } else if (there->samples() != split.samples()) {
      out.push_back(fmt::format("split {} has {} samples, locked with {}", split.name(),
                                there->samples(), split.samples()));
    } else if (there->content_sha256() != split.content_sha256()) {
      out.push_back(fmt::format("split {} has other records", split.name()));
    }
  }
  std::map<std::string, const data::File*> files;
  for (const data::File& file : found.file()) files[file.path()] = &file;
  for (const data::File& file : locked.file()) {
    const data::File* there = files.contains(file.path()) ? files[file.path()] : nullptr;
    files.erase(file.path());
    if (there == nullptr) {
      out.push_back(fmt::format("file {} is missing", file.path()));
    } else if (there->bytes() != file.bytes()) {
      out.push_back(fmt::format("file {} has {} bytes, locked with {}", file.path(), there->bytes(),
                                file.bytes()));
    } else if (there->sha256() != file.sha256()) {
      out.push_back(fmt::format("file {} has another SHA-256", file.path()));
    }
  }
  for (const auto& [path, file] : files)
    out.push_back(fmt::format("file {} is not in the lock", path));
  return out;
}

std::map<std::string, std::string> content_digests(const v1::Recipe& recipe,
                                                   const DescribeData& describe) {
  std::map<std::string, std::string> digests;
  for (const v1::DataRef& data : recipe.data()) {
    const fs::path folder = fs::path(recipe.io().data_root()) / data.lock();
    if (!is_there(folder)) continue;
    const data::Entry there = describe(folder);
    if (const data::Split* split = find_split(there, data.split()))
      digests[split_key(data)] = split->content_sha256();
  }
  return digests;
}

void require_locked_data(const data::Lock& lock, const v1::Recipe& recipe,
                         const std::map<std::string, std::string>& digests) {
  for (const v1::DataRef& data : recipe.data()) {
    const data::Entry* entry = find_entry(lock, data.lock());
    const data::Split* locked = entry == nullptr ? nullptr : find_split(*entry, data.split());
    const auto found = digests.find(split_key(data));
    if (locked == nullptr || found == digests.end() || found->second == locked->content_sha256())
      continue;
    throw Error(
        Exit::kDataMismatch,
        fmt::format("data '{}': split {} in {} is not the one that data.lock pins", data.id(),
                    data.split(), (fs::path(recipe.io().data_root()) / data.lock()).string()),
        fmt::format("'recipe-run data verify {} --data {}' says what differs", data.lock(),
                    recipe.io().data_root()));
  }
}

}  // namespace reciperun
