// Files are written beside their place and then renamed: whole, or not there.
#include "tools/predict/pictures.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <opencv2/imgcodecs.hpp>

#include "tools/common/error.h"
#include "tools/common/file.h"
#include "tools/common/picture_reader.h"

namespace assay::tools {
namespace {

namespace fs = std::filesystem;

// Pages as they are decoded; rows are copied, since the reader keeps its memory.
void take_page(void* to, const assay_picture* page) {
  if (page->bits != 8) return;
  const auto step = static_cast<size_t>(page->row_bytes);  // 0: as OpenCV's AUTO_STEP
  const cv::Mat borrowed(page->height, page->width, CV_8UC(page->channels),
                         const_cast<void*>(page->data), step);
  static_cast<std::vector<cv::Mat>*>(to)->push_back(borrowed.clone());
}

template <class Write>
void write_whole(const fs::path& file, Write&& write) {
  const fs::path unfinished =
      file.parent_path() /
      fmt::format(".{}.{}{}", file.stem().string(), ::getpid(), file.extension().string());
  bool written = false;
  try {
    written = write(unfinished.string());
  } catch (const cv::Exception&) {
  }
  std::error_code error;
  if (written) fs::rename(unfinished, file, error);
  if (written && !error) return;
  fs::remove(unfinished, error);
  throw Error(Exit::kCrashed, fmt::format("'{}' cannot be written", file.string()),
              "is the folder there, may it be written to, is there space?");
}

}  // namespace

std::vector<fs::path> picture_files(const std::vector<std::string>& arguments) {
  std::vector<fs::path> out;
  for (const std::string& argument : arguments) {
    std::error_code ignored;
    if (!fs::exists(argument, ignored))
      throw Error(Exit::kDataMismatch, fmt::format("'{}' is not there", argument));
    if (!fs::is_directory(argument)) {
      out.emplace_back(argument);
      continue;
    }
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(argument)) {
      if (entry.is_regular_file() && entry.path().filename().string()[0] != '.')
        found.push_back(entry.path());
    }
    std::sort(found.begin(), found.end());
    out.insert(out.end(), found.begin(), found.end());
  }
  if (out.empty()) throw Error(Exit::kDataMismatch, "there are no pictures in what was named");
  return out;
}

std::vector<Page> read_pages(const fs::path& file) {
  const std::string bytes = read_file(file);
  std::vector<cv::Mat> pages;
  read_pictures(0, bytes.data(), bytes.size(), take_page, &pages);
  if (pages.empty())
    throw Error(Exit::kDataMismatch,
                fmt::format("'{}' is no picture of 8 bits that can be decoded", file.string()));
  std::vector<Page> out;
  for (size_t i = 0; i < pages.size(); ++i) {
    out.push_back(
        {pages.size() == 1 ? file.string() : fmt::format("{}:{}", file.string(), i + 1), pages[i]});
  }
  return out;
}

PictureWriter::PictureWriter(fs::path target) : target_(std::move(target)) {
  std::error_code error;
  const fs::path folder = is_tiff() ? fs::absolute(target_).parent_path() : target_;
  if (!is_tiff()) fs::create_directories(folder, error);
  if (!fs::is_directory(folder, error))
    throw Error(Exit::kUsage, fmt::format("there is no folder '{}'", folder.string()));
}

bool PictureWriter::is_tiff() const {
  return target_.extension() == ".tif" || target_.extension() == ".tiff";
}

void PictureWriter::add(const std::string& name, const cv::Mat& picture) {
  if (is_tiff()) {
    pages_.push_back(picture);
    return;
  }
  std::string file = fs::path(name).filename().string();
  std::replace(file.begin(), file.end(), ':', '-');
  write_whole(target_ / (file + ".png"),
              [&](const std::string& path) { return cv::imwrite(path, picture); });
}

void PictureWriter::finish() {
  if (!is_tiff()) return;
  write_whole(target_, [&](const std::string& path) { return cv::imwritemulti(path, pages_); });
}

}  // namespace assay::tools
