// Files that survive a crash: whole-file writes are atomic (temporary file, fsync, rename, fsync of
// the folder) and appends are explicit about when they reach the disk. Every failure is an Error
// that names the file and the cause.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace reciperun {

namespace fs = std::filesystem;

bool is_there(const fs::path& path);

// The whole file. Fails (Exit::kUsage) if it is missing, a folder, or unreadable.
std::string read_file(const fs::path& path);

// Replaces `path` by `content`: readers and a crash see either the old or the new file, whole.
// Creates the folder.
void write_file_atomic(const fs::path& path, std::string_view content);

// Removes what killed writers left anywhere below `folder`: files under a temporary name, ours or
// the engine's. Only while nobody writes there.
void remove_unfinished(const fs::path& folder);

void create_folders(const fs::path& folder);

// An append-only file. Not thread safe. The destructor closes without syncing.
class AppendFile {
 public:
  // Opens or creates. `keep_bytes` >= 0 first cuts the file to that length (to drop a torn tail).
  explicit AppendFile(fs::path path, int64_t keep_bytes = -1);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void append(std::string_view bytes);
  void sync();  // returns once everything appended is on the disk
  int64_t size() const { return size_; }

 private:
  fs::path path_;
  int fd_ = -1;
  int64_t size_ = 0;
};

// One process at a time: holds an advisory lock on `path` for the life of the object.
class FileLock {
 public:
  // Fails at once if another process holds it; `what` names the locked thing in the message.
  FileLock(const fs::path& path, std::string_view what);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int fd_ = -1;
};

// SHA-256 as lower-case hexadecimal text.

std::string sha256_hex(std::string_view bytes);

// Of a file, read in pieces. Fails (Exit::kUsage) if it cannot be read.
std::string sha256_of_file(const std::filesystem::path& path);

}  // namespace reciperun
