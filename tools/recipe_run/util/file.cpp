// System calls behind files, with an Error for each that fails; SHA-256 by OpenSSL.
#include "tools/recipe_run/util/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "tools/recipe_run/util/error.h"

namespace reciperun {
namespace {

[[noreturn]] void fail_errno(std::string_view doing, const fs::path& path, int number) {
  const std::string hint = number == ENOSPC   ? "free some space, then run the same command again"
                           : number == EACCES ? "check the permissions of the file and its folders"
                                              : "";
  throw Error(Exit::kCrashed,
              fmt::format("{} '{}': {}", doing, path.string(), std::strerror(number)), hint);
}

void write_all(int fd, std::string_view bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(fd, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail_errno("cannot write", path, errno);
    bytes.remove_prefix(static_cast<size_t>(done));
  }
}

void sync_folder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail_errno("cannot open folder", folder, errno);
  ::fsync(fd);  // some file systems refuse to sync a folder; the rename itself is still atomic
  ::close(fd);
}

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

// Gives the content of a file piece by piece. Error kUsage if it cannot be read.
template <class Take>
void read_pieces(const fs::path& path, const Take& take) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::vector<char> piece(size_t{1} << 16);
  while (in) {
    in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    take(std::string_view(piece.data(), static_cast<size_t>(in.gcount())));
  }
  require(in.eof(), fmt::format("cannot read '{}': {}", path.string(), std::strerror(errno)));
}

class Sha256 {
 public:
  Sha256() { check(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1); }
  void add(std::string_view bytes) {
    check(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
  }
  std::string hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    check(EVP_DigestFinal_ex(context_.get(), digest, &size) == 1);
    return fmt::format("{:02x}", fmt::join(digest, digest + size, ""));
  }

 private:
  static void check(bool done) {
    if (!done) throw Error(Exit::kCrashed, "libcrypto cannot compute SHA-256");
  }
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_{EVP_MD_CTX_new()};
};

}  // namespace

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::string read_file(const fs::path& path) {
  std::error_code ignored;
  require(!fs::is_directory(path, ignored), "'" + path.string() + "' is a folder, expected a file");
  std::string content;
  read_pieces(path, [&](std::string_view piece) { content += piece; });
  return content;
}

void create_folders(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_errno("cannot create folder", folder, error.value());
}

void write_file_atomic(const fs::path& path, std::string_view content) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  create_folders(folder);
  const fs::path temporary = path.string() + ".tmp." + std::to_string(::getpid());
  try {
    Descriptor file{::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
    if (file.fd < 0) fail_errno("cannot create", temporary, errno);
    write_all(file.fd, content, path);
    if (::fsync(file.fd) != 0) fail_errno("cannot write to disk", path, errno);
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail_errno("cannot replace", path, errno);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_folder(folder);
}

void remove_unfinished(const fs::path& folder) {
  std::vector<fs::path> unfinished;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool ours = name.find(".tmp.") != std::string::npos;
    const bool the_engines = name[0] == '.' && name.find(".tmp-") != std::string::npos;
    if ((ours || the_engines) && entry->is_regular_file()) unfinished.push_back(entry->path());
  }
  for (const fs::path& path : unfinished) fs::remove(path, error);
}

AppendFile::AppendFile(fs::path path, int64_t keep_bytes) : path_(std::move(path)) {
  create_folders(path_.parent_path());
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ < 0) fail_errno("cannot open", path_, errno);
  struct stat info = {};
  ::fstat(fd_, &info);
  size_ = info.st_size;
  if (keep_bytes >= 0 && keep_bytes < size_) {
    if (::ftruncate(fd_, keep_bytes) != 0) {
      const int number = errno;
      ::close(fd_);
      fail_errno("cannot shorten", path_, number);
    }
    size_ = keep_bytes;
  }
}

AppendFile::~AppendFile() { ::close(fd_); }

void AppendFile::append(std::string_view bytes) {
  write_all(fd_, bytes, path_);
  size_ += static_cast<int64_t>(bytes.size());
}

void AppendFile::sync() {
  if (::fsync(fd_) != 0) fail_errno("cannot write to disk", path_, errno);
}

FileLock::FileLock(const fs::path& path, std::string_view what) {
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) fail_errno("cannot create", path, errno);
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    ::close(fd_);
    throw Error(Exit::kUsage, std::string(what) + " is in use by another recipe-run",
                "wait for it to end, or choose another --runs folder");
  }
}

FileLock::~FileLock() { ::close(fd_); }

std::string sha256_hex(std::string_view bytes) {
  Sha256 sum;
  sum.add(bytes);
  return sum.hex();
}

std::string sha256_of_file(const std::filesystem::path& path) {
  Sha256 sum;
  read_pieces(path, [&](std::string_view piece) { sum.add(piece); });
  return sum.hex();
}

}  // namespace reciperun
