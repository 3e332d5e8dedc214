// A folder for what is read from files by their names. It goes when the process ends.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

class Folder {
 public:
  Folder() {
    path_ = std::filesystem::temp_directory_path() / "fuzz_XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~Folder() {
    std::error_code failed;
    std::filesystem::remove_all(path_, failed);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }
  // The path of the file.
  std::string write(std::string_view name, std::string_view bytes) const {
    const std::string path = path_ + "/" + std::string(name);
    std::ofstream file(path, std::ios::binary);
    file.write(bytes.data(), static_cast<int64_t>(bytes.size()));
    if (!file.flush()) std::abort();
    return path;
  }

 private:
  std::string path_;
};
