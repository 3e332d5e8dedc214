// Picture files in and out.
#pragma once

#include <filesystem>
#include <opencv2/core/mat.hpp>
#include <string>
#include <vector>

namespace assay::tools {

// One picture: 8 bits, 1 channel (grey), 3 (red, green, blue) or 4 (and opacity).
struct Page {
  std::string name;  // of its file, with the page's number behind a ':' where it has several
  cv::Mat picture;
};

// The picture files that the arguments name: files as they are, of folders every file in the order
// of the names. Fails (Error kDataMismatch) for one that is not there.
std::vector<std::filesystem::path> picture_files(const std::vector<std::string>& arguments);

// All pages of a file. Fails (Error kDataMismatch) for one that cannot be decoded or has more than
// 8 bits.
std::vector<Page> read_pages(const std::filesystem::path& file);

// Pictures, grey or in blue, green and red. A `target` that ends in .tif or .tiff is one file with
// a page for each; any other is a folder, created if need be, with a PNG file for each. What is
// written appears whole or not at all. Fails (Error kCrashed) if it cannot be written.
class PictureWriter {
 public:
  explicit PictureWriter(std::filesystem::path target);
  void add(const std::string& name, const cv::Mat& picture);
  void finish();
  bool is_tiff() const;

 private:
  std::filesystem::path target_;
  std::vector<cv::Mat> pages_;  // of the one file
};

}  // namespace assay::tools
