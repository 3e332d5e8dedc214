// Files of the operating system: every refused call becomes an Error (kIo or kNotFound) that names
// the file.
//
// Calls interrupted by a signal are retried, short reads and writes are continued. Nothing here
// locks: a File is for one thread at a time, except read_at and read_exact_at, which several
// threads may call at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace assay {

// An open file; closes itself.
class File {
 public:
  static File open_read(const std::string& path);
  // Creates or empties the file, mode 0666 less the umask.
  static File create(const std::string& path);

  // A new file beside `path`, locked, under a name that remove_stale_temporaries(path) knows.
  // Errors name `called`.
  static File create_temporary(const std::string& path, const std::string& called);

  // Opens a folder and takes its lock, held until the File goes; the system frees it even when the
  // process is killed. kBusy, naming `doing`, while another process or File holds it.
  static File lock_folder(const std::string& folder, std::string_view doing);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  uint64_t size() const;

  // Reads up to `bytes` from `offset`; fewer only at the end of the file. Returns how many.
  size_t read_at(void* target, size_t bytes, uint64_t offset) const;
  // Reads exactly that many; kFormat when the file ends earlier.
  void read_exact_at(void* target, size_t bytes, uint64_t offset) const;
  // Appends at the file position.
  void write(const void* data, size_t bytes);
  // Forces contents and size to the disk.
  void sync();
  // Closes and reports what the system had deferred (full disks of network file systems); the
  // destructor cannot.
  void close();

 private:
  File(int descriptor, const std::string& path) : File(descriptor, path, path) {}
  File(int descriptor, std::string path, std::string called)
      : descriptor_(descriptor), path_(std::move(path)), called_(std::move(called)) {}
  int descriptor_ = -1;
  std::string path_;
  std::string called_;  // in errors
};

// A file that appears under its name whole and durable, or not at all: written under a temporary
// name in the same folder, and renamed over `path` by commit(), or over what that links to.
// Destroyed without commit, it removes the temporary file. Errors name `path`. What is no regular
// file is not replaced (kInvalid; kIo for a folder).
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  AtomicFile(AtomicFile&&) = delete;
  ~AtomicFile();

  const std::string& path() const { return path_; }
  // The temporary file.
  File& file() { return file_; }

  void write(const void* data, size_t bytes) { file_.write(data, bytes); }
  void write(std::string_view text) { file_.write(text.data(), text.size()); }
  // fsync, rename, fsync of the folder. After an Error from here or from write, `path` is as it was
  // before; only when syncing the folder fails, it is the new file, which a power cut may undo.
  void commit();

 private:
  std::string path_, place_;  // as it was given, and where links lead
  File file_;
  bool committed_ = false;
};

// Removes the temporary files that writers of `path` left when they were killed: those that nobody
// holds a lock on. For large files; what cannot be removed is left alone.
void remove_stale_temporaries(const std::string& path) noexcept;

// The whole file. kFormat when it is larger than `max_bytes`, so that a wrong path cannot eat the
// memory.
std::string read_file(const std::string& path, uint64_t max_bytes = uint64_t{1} << 32);
void write_file_atomic(const std::string& path, std::string_view contents);

// Creates the folder and its parents; no error when it exists.
void make_directories(const std::string& path);
// Removes one file; no error when it does not exist.
void remove_file(const std::string& path);
// True for files and folders; kIo when the system does not let us look.
bool path_exists(const std::string& path);
bool is_directory(const std::string& path);
// The names in a folder, sorted bytewise, without the hidden ones. kNotFound, kIo.
struct FolderListing {
  std::vector<std::string> folders, files;
};
FolderListing list_folder(const std::string& folder);
// The paths in a folder whose names match a shell pattern ("*.jpg"; hidden ones where the pattern
// begins with their dot), sorted bytewise. kNotFound, kIo.
std::vector<std::string> list_files(const std::string& folder, const std::string& pattern);
// "a/b" + "c" == "a/b/c".
std::string join_path(std::string_view folder, std::string_view name);
// "a/b/c" -> "a/b"; "." for a bare name.
std::string parent_path(const std::string& path);
// "a/b/c" -> "c".
std::string file_name(const std::string& path);

}  // namespace assay
