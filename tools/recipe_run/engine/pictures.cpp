#include "tools/recipe_run/engine/pictures.h"

#include <unistd.h>

#include <algorithm>

#include "tools/recipe_run/base/error.h"

#ifdef ASSAY_OPENCV
#include <opencv2/core/mat.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#endif

namespace reciperun::engine {

#ifdef ASSAY_OPENCV
namespace {

constexpr int kGap = 8;                                   // grey pixels between the parts
const cv::Vec3b kOrange(0, 94, 213), kBlue(178, 114, 0);  // blue, green, red

uint8_t grey(float value) {
  return static_cast<uint8_t>(std::clamp((value + 1) * 127.5f + 0.5f, 0.0f, 255.0f));
}

cv::Vec3b grey_pixel(uint8_t level) { return {level, level, level}; }
cv::Vec3b class_pixel(uint8_t c) { return grey_pixel(c == 0 ? 0 : 255); }

// The image, pale, with the errors on it.
cv::Vec3b error_pixel(uint8_t level, uint8_t label, uint8_t predicted) {
  if (label == predicted) return grey_pixel(static_cast<uint8_t>(160 + level * 95 / 255));
  return predicted == 0 ? kOrange : kBlue;
}

cv::Mat side_by_side(const SegmentedImage& s) {
  cv::Mat out(s.side, 4 * s.side + 3 * kGap, CV_8UC3, cv::Scalar::all(128));
  const int step = s.side + kGap;
  for (int y = 0; y < s.side; ++y) {
    for (int x = 0; x < s.side; ++x) {
      const size_t i = s.at(y, x);
      const uint8_t level = grey(s.image[i]);
      out.at<cv::Vec3b>(y, x) = grey_pixel(level);
      out.at<cv::Vec3b>(y, x + step) = class_pixel(s.label[i]);
      out.at<cv::Vec3b>(y, x + 2 * step) = class_pixel(s.predicted[i]);
      out.at<cv::Vec3b>(y, x + 3 * step) = error_pixel(level, s.label[i], s.predicted[i]);
    }
  }
  return out;
}

cv::Mat prediction_page(const SegmentedImage& s, int side) {
  cv::Mat small(s.side, s.side, CV_8U), page;
  for (int y = 0; y < s.side; ++y) {
    for (int x = 0; x < s.side; ++x)
      small.at<uint8_t>(y, x) = s.predicted[s.at(y, x)] == 0 ? 0 : 255;
  }
  cv::resize(small, page, {side, side}, 0, 0, cv::INTER_LINEAR);
  return page;
}

}  // namespace

bool can_write_pictures() { return true; }

namespace {

// Calls write(), which answers whether it could; OpenCV may raise instead.
template <class Write>
void write_or_fail(const fs::path& path, Write&& write) {
  bool written = false;
  try {
    written = write();
  } catch (const cv::Exception&) {
  }
  if (!written)
    throw Error(Exit::kCrashed, "pictures cannot be written to '" + path.string() + "'",
                "is the folder there, may it be written to, is there space?");
}

}  // namespace

void write_pictures(const fs::path& folder, std::span<const SegmentedImage> images) {
  create_folders(folder);
  for (const SegmentedImage& image : images) {
    const fs::path file = folder / (image.name + ".png");
    write_or_fail(file, [&] { return cv::imwrite(file.string(), side_by_side(image)); });
  }
}

void write_predictions(const fs::path& file, std::span<const SegmentedImage> images,
                       int page_side) {
  std::vector<cv::Mat> pages;
  for (const SegmentedImage& image : images) pages.push_back(prediction_page(image, page_side));
  const fs::path unfinished = file.string() + ".tmp." + std::to_string(::getpid()) + ".tif";
  std::error_code error;
  write_or_fail(file, [&] {
    if (cv::imwritemulti(unfinished.string(), pages)) fs::rename(unfinished, file, error);
    return fs::exists(file, error) && !fs::exists(unfinished, error);
  });
}
#else
bool can_write_pictures() { return false; }
void write_pictures(const fs::path&, std::span<const SegmentedImage>) {}
void write_predictions(const fs::path&, std::span<const SegmentedImage>, int) {}
#endif

}  // namespace reciperun::engine
