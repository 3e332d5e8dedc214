// Files by system calls, and writing that is whole or does not happen: a temporary file, renamed.
#include "sdk/base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <memory>
#include <optional>
#include <utility>

#include "sdk/base/error.h"
#include "sdk/base/expect.h"
#include "sdk/base/hex.h"

namespace assay {
namespace {

// Linux transfers at most 0x7ffff000 bytes per call; smaller pieces also keep interruptions cheap.
constexpr size_t kMaxTransferBytes = size_t{1} << 30;

// Repeats a system call that reports EINTR.
template <class Call>
auto retry(Call&& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

int open_or_fail(const std::string& path, int flags, std::string_view doing,
                 const std::string& called) {
  const int descriptor = retry([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); });
  if (descriptor < 0) fail_errno(doing, called, errno);
  return descriptor;
}

int open_or_fail(const std::string& path, int flags, std::string_view doing) {
  return open_or_fail(path, flags, doing, path);
}

void examine_or_fail(int descriptor, struct stat& status, const std::string& called) {
  if (retry([&] { return ::fstat(descriptor, &status); }) < 0)
    fail_errno("examining", called, errno);
}

int unlink(const std::string& path) {
  return retry([&] { return ::unlink(path.c_str()); });
}

int rename(const std::string& from, const std::string& to) {
  return retry([&] { return ::rename(from.c_str(), to.c_str()); });
}

// A folder whose entries are to be made durable. Where that cannot be asked for, because the folder
// may be written but not read or its file system (FUSE, overlays) does not sync folders, a rename
// is as durable as it gets.
class SyncedFolder {
 public:
  explicit SyncedFolder(std::string path) : path_(std::move(path)) {
    descriptor_ = retry([&] { return ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
    if (descriptor_ < 0 && errno != EACCES) fail_errno("opening folder", path_, errno);
  }
  ~SyncedFolder() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  SyncedFolder(const SyncedFolder&) = delete;
  SyncedFolder& operator=(const SyncedFolder&) = delete;

  void sync() const {
    if (descriptor_ < 0 || retry([&] { return ::fsync(descriptor_); }) == 0) return;
    if (errno != EINVAL && errno != ENOTSUP) fail_errno("syncing folder", path_, errno);
  }

 private:
  std::string path_;
  int descriptor_ = -1;
};

// Sorted, without "." and "..". By system calls: the iterators of libstdc++ end the process where
// memory runs out.
std::vector<std::string> names_in(const std::string& folder) {
  struct Close {
    void operator()(DIR* open) const { ::closedir(open); }
  };
  const std::unique_ptr<DIR, Close> open(::opendir(folder.c_str()));
  if (open == nullptr) fail_errno("listing", folder, errno);
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* const entry = ::readdir(open.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) fail_errno("listing", folder, errno);
  std::sort(names.begin(), names.end());
  return names;
}

// Temporary files are ".<name>.tmp-" and 16 hexadecimal digits: hidden, so that globs of a data
// folder pass them over, and random, for containers and machines that share a folder have the same
// process numbers. Their writer holds a lock on them (flock), which ends with it.
constexpr size_t kRandomDigits = 16;

std::string temporary_prefix(const std::string& path) {
  constexpr std::string_view kMark = ".tmp-";
  constexpr size_t kLongestName = NAME_MAX - 1 - kMark.size() - kRandomDigits;
  return cat(".", file_name(path).substr(0, kLongestName), kMark);
}

std::string random_digits() {
  std::array<unsigned char, kRandomDigits / 2> bytes;
  if (retry([&] { return ::getentropy(bytes.data(), bytes.size()); }) < 0)
    fail_errno("drawing", "a random name", errno);
  return hex_text(bytes);
}

bool is_temporary_of(const std::string& prefix, const std::string& name) {
  return name.starts_with(prefix) && name.size() == prefix.size() + kRandomDigits &&
         name.find_first_not_of(kHexDigits, prefix.size()) == std::string::npos;
}

// Taken at once or not at all; false too where the file system knows no locks.
bool lock_at_once(int descriptor) {
  return retry([&] { return ::flock(descriptor, LOCK_EX | LOCK_NB); }) == 0;
}

// Where a new file of this name belongs: to where links lead, so that they stay links. Only regular
// files are replaced: the rename would put one in the place of a device, for all who use that.
std::string place_of(const std::string& path) {
  struct stat status;
  if (retry([&] { return ::stat(path.c_str(), &status); }) == 0) {
    if (S_ISDIR(status.st_mode)) fail_errno("writing", path, EISDIR);
    expect(S_ISREG(status.st_mode), {cat("writing ", path), "path"}, "a device, pipe or socket",
           "a regular file, or a name that is still free");
  } else if (errno != ENOENT && errno != ENOTDIR) {
    fail_errno("writing", path, errno);
  }
  std::string place = path;
  std::array<char, PATH_MAX> target;
  ssize_t length;  // of what a link says; anything else, or nothing, is the place
  while ((length = ::readlink(place.c_str(), target.data(), target.size())) >= 0) {
    const std::string next(target.data(), static_cast<size_t>(length));
    place = next.starts_with('/') ? next : join_path(parent_path(place), next);
  }
  return place;
}

}  // namespace

File File::open_read(const std::string& path) {
  File file(open_or_fail(path, O_RDONLY, "opening"), path);
  struct stat status;
  examine_or_fail(file.descriptor_, status, path);
  // Opening a folder succeeds and only reading it fails; say so at once.
  if (S_ISDIR(status.st_mode)) fail_errno("opening", path, EISDIR);
  return file;
}

File File::create(const std::string& path) {
  return {open_or_fail(path, O_WRONLY | O_CREAT | O_TRUNC, "creating"), path};
}

File File::lock_folder(const std::string& folder, std::string_view doing) {
  File file(open_or_fail(folder, O_RDONLY | O_DIRECTORY, "opening folder"), folder);
  if (retry([&] { return ::flock(file.descriptor_, LOCK_EX | LOCK_NB); }) < 0) {
    if (errno != EWOULDBLOCK) fail_errno("locking folder", folder, errno);
    fail(Code::kBusy, cat(doing, ": somebody else is at work in ", folder,
                          "; wait until they are done or choose another folder"));
  }
  return file;
}

File::File(File&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      called_(std::move(other.called_)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(path_, other.path_);
  std::swap(called_, other.called_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

uint64_t File::size() const {
  struct stat status;
  examine_or_fail(descriptor_, status, called_);
  return static_cast<uint64_t>(status.st_size);
}

size_t File::read_at(void* target, size_t bytes, uint64_t offset) const {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t count = retry([&] {
      return ::pread(descriptor_, static_cast<char*>(target) + done,
                     std::min(bytes - done, kMaxTransferBytes), static_cast<off_t>(offset + done));
    });
    if (count < 0) fail_errno("reading", called_, errno);
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

void File::read_exact_at(void* target, size_t bytes, uint64_t offset) const {
  const size_t count = read_at(target, bytes, offset);
  require(count == bytes, Code::kFormat, "reading ", called_, ": it ends at byte ", offset + count,
          " where ", bytes, " bytes from byte ", offset,
          " were expected; the file is truncated, get a complete copy");
}

void File::write(const void* data, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t count = retry([&] {
      return ::write(descriptor_, static_cast<const char*>(data) + done,
                     std::min(bytes - done, kMaxTransferBytes));
    });
    if (count < 0) fail_errno("writing", called_, errno);
    done += static_cast<size_t>(count);
  }
}

void File::sync() {
  if (retry([&] { return ::fsync(descriptor_); }) < 0) fail_errno("syncing", called_, errno);
}

void File::close() {
  // Linux frees the descriptor even when close reports EINTR: never retry.
  const int descriptor = std::exchange(descriptor_, -1);
  if (descriptor >= 0 && ::close(descriptor) < 0 && errno != EINTR) {
    fail_errno("closing", called_, errno);
  }
}

File File::create_temporary(const std::string& path, const std::string& called) {
  while (true) {
    const std::string name = join_path(parent_path(path), temporary_prefix(path) + random_digits());
    File file(open_or_fail(name, O_RDWR | O_CREAT | O_EXCL, "creating", called), name, called);
    lock_at_once(file.descriptor_);
    struct stat status;
    try {
      examine_or_fail(file.descriptor_, status, called);
    } catch (...) {
      unlink(name);
      throw;
    }
    if (status.st_nlink > 0) return file;  // else taken for a stale one before it was locked
  }
}

AtomicFile::AtomicFile(const std::string& path)
    : path_(path), place_(place_of(path)), file_(File::create_temporary(place_, path)) {}

AtomicFile::~AtomicFile() {
  if (!committed_) unlink(file_.path());
}

void AtomicFile::commit() {
  const SyncedFolder folder(parent_path(place_));  // first: what fails must fail before the rename
  file_.sync();
  // Not closed before: that ends the lock, without which the file would be taken for a stale one.
  // Nor afterwards: what close could report, the sync has.
  if (rename(file_.path(), place_) < 0) fail_errno("writing", path_, errno);
  committed_ = true;
  folder.sync();
}

void remove_stale_temporaries(const std::string& path) noexcept try {
  const std::string place = place_of(path), prefix = temporary_prefix(place);
  for (const std::string& name : names_in(parent_path(place))) {
    if (!is_temporary_of(prefix, name)) continue;
    const std::string stale = join_path(parent_path(place), name);
    const int descriptor = ::open(stale.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor < 0) continue;
    if (lock_at_once(descriptor)) unlink(stale);
    ::close(descriptor);
  }
} catch (...) {
  // A folder that cannot be listed: the write that follows says so better.
}

std::string read_file(const std::string& path, uint64_t max_bytes) {
  const File file = File::open_read(path);
  std::string contents;
  // Pipes and /proc files report no size, so read until the end instead of trusting it.
  contents.resize(static_cast<size_t>(std::min(file.size(), max_bytes)) + 1);
  size_t done = 0;
  while (true) {
    const ssize_t count = retry(
        [&] { return ::read(file.descriptor(), contents.data() + done, contents.size() - done); });
    if (count < 0) fail_errno("reading", path, errno);
    if (count == 0) break;
    done += static_cast<size_t>(count);
    require(done <= max_bytes, Code::kFormat, "reading ", path, ": it is larger than the ",
            max_bytes, " bytes expected here; check the path");
    if (done == contents.size()) contents.resize(2 * done);
  }
  contents.resize(done);
  return contents;
}

void write_file_atomic(const std::string& path, std::string_view contents) {
  AtomicFile file(path);
  file.write(contents);
  file.commit();
}

void make_directories(const std::string& path) {
  if (path.empty() || is_directory(path)) return;
  const std::string parent = parent_path(path);
  if (parent != path) make_directories(parent);  // equal for "." in a folder that was removed
  if (retry([&] { return ::mkdir(path.c_str(), 0777); }) < 0 &&
      !(errno == EEXIST && is_directory(path))) {
    fail_errno("creating folder", path, errno);
  }
}

void remove_file(const std::string& path) {
  if (unlink(path) < 0 && errno != ENOENT) fail_errno("removing", path, errno);
}

namespace {

// Of a file or a folder; none if it is not there.
std::optional<mode_t> mode_of(const std::string& path) {
  struct stat status;
  if (retry([&] { return ::stat(path.c_str(), &status); }) == 0) return status.st_mode;
  if (errno != ENOENT && errno != ENOTDIR) fail_errno("examining", path, errno);
  return std::nullopt;
}

}  // namespace

bool path_exists(const std::string& path) { return mode_of(path).has_value(); }

bool is_directory(const std::string& path) {
  const std::optional<mode_t> mode = mode_of(path);
  return mode && S_ISDIR(*mode);
}

FolderListing list_folder(const std::string& folder) {
  FolderListing listing;
  for (std::string& name : names_in(folder)) {
    if (name.starts_with('.')) continue;
    auto& kind = is_directory(join_path(folder, name)) ? listing.folders : listing.files;
    kind.push_back(std::move(name));
  }
  return listing;
}

std::vector<std::string> list_files(const std::string& folder, const std::string& pattern) {
  std::vector<std::string> paths;
  for (const std::string& name : names_in(folder)) {
    if (::fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0)
      paths.push_back(join_path(folder, name));
  }
  return paths;
}

std::string join_path(std::string_view folder, std::string_view name) {
  if (folder.empty()) return std::string(name);
  return cat(folder, folder.back() == '/' ? "" : "/", name);
}

std::string parent_path(const std::string& path) {
  size_t end = path.find_last_not_of('/');
  if (end == std::string::npos) return path.empty() ? "." : "/";
  const size_t slash = path.rfind('/', end);
  if (slash == std::string::npos) return ".";
  end = path.find_last_not_of('/', slash);
  return end == std::string::npos ? "/" : path.substr(0, end + 1);
}

std::string file_name(const std::string& path) {
  const size_t end = path.find_last_not_of('/');
  if (end == std::string::npos) return path;
  const size_t slash = path.rfind('/', end);
  const size_t begin = slash == std::string::npos ? 0 : slash + 1;
  return path.substr(begin, end + 1 - begin);
}

}  // namespace assay
