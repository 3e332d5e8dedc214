// Decoding with OpenCV, behind the check of picture_check.h.
#include "tools/common/picture_reader.h"

#include <sys/mman.h>
#include <unistd.h>

#include <opencv2/core/mat.hpp>
#include <opencv2/core/utils/logger.hpp>
#include <opencv2/imgcodecs.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tools/common/picture_check.h"

namespace assay::tools {
namespace {

// OpenCV keeps colours as blue, green, red.
void swap_red_and_blue(cv::Mat& picture) {
  const int channels = picture.channels();
  if (channels < 3) return;
  const auto swap_row = [&](auto* row) {
    for (int x = 0; x < picture.cols; ++x, row += channels) std::swap(row[0], row[2]);
  };
  for (int y = 0; y < picture.rows; ++y) {
    if (picture.depth() == CV_8U) {
      swap_row(picture.ptr<uint8_t>(y));
    } else {
      swap_row(picture.ptr<uint16_t>(y));
    }
  }
}

// A file that lives in memory only: OpenCV 4.6 reads all pages of files, but not of buffers.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : MemoryFile() {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written <= 0) throw std::runtime_error("no memory for a file");
      bytes.remove_prefix(static_cast<size_t>(written));
    }
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  MemoryFile() : descriptor_(::memfd_create("picture", MFD_CLOEXEC)) {
    if (descriptor_ < 0) throw std::runtime_error("no file in memory");
  }

  int descriptor_;
};

// OpenCV keeps the pages before a damaged one and says nothing: all or none.
std::vector<cv::Mat> decode(std::string_view bytes) {
  static const auto kQuiet = cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT);
  static_cast<void>(kQuiet);
  const MemoryFile file(bytes);
  const std::optional<size_t> count = whole_pages(bytes, file.path());
  std::vector<cv::Mat> pages;
  if (count) cv::imreadmulti(file.path(), pages, cv::IMREAD_UNCHANGED);
  if (pages.size() != count) pages.clear();
  return pages;
}

}  // namespace

int32_t read_pictures(uintptr_t, const void* file, size_t size,
                      void (*give)(void* to, const assay_picture* page), void* to) {
  if (size == 0) return 1;
  try {
    std::vector<cv::Mat> pages = decode({static_cast<const char*>(file), size});
    for (cv::Mat& page : pages) {
      const int depth = page.depth();
      if (depth != CV_8U && depth != CV_16U) return 1;
      swap_red_and_blue(page);
      assay_picture picture{};
      picture.struct_size = sizeof picture;
      picture.height = page.rows;
      picture.width = page.cols;
      picture.channels = page.channels();
      picture.bits = depth == CV_8U ? 8 : 16;
      picture.row_bytes = static_cast<int64_t>(page.step[0]);
      picture.data = page.data;
      give(to, &picture);
    }
    return pages.empty() ? 1 : 0;
  } catch (const std::exception&) {  // cv::Exception and what allocation raises
    return 1;
  }
}

}  // namespace assay::tools
