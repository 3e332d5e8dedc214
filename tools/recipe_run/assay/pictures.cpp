// Segmented images from a model's scores, and their drawing with OpenCV.
#include "tools/recipe_run/assay/pictures.h"

#include <algorithm>

#ifdef ASSAY_OPENCV
#include <opencv2/imgcodecs.hpp>
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

}  // namespace

void write_picture(const fs::path& file, const cv::Mat& picture) {
  bool written = false;
  try {
    written = cv::imwrite(file.string(), picture);
  } catch (const cv::Exception&) {
  }
  if (!written)
    throw Error(Exit::kCrashed, "the picture '" + file.string() + "' cannot be written",
                "is the folder there, may it be written to, is there space?");
}

bool can_write_pictures() { return true; }

void write_pictures(const fs::path& folder, std::span<const SegmentedImage> images) {
  create_folders(folder);
  for (const SegmentedImage& image : images)
    write_picture(folder / (image.name + ".png"), side_by_side(image));
}
#else
bool can_write_pictures() { return false; }
void write_pictures(const fs::path&, std::span<const SegmentedImage>) {}
#endif

std::vector<SegmentedImage> segmented(Forward& model, const assay_tensor* const* batch,
                                      int64_t count) {
  const assay_tensor_info image = info_of(batch[0]), target = info_of(batch[1]);
  const Tensor logits = std::move(model.run(batch)[0]);
  const auto side = static_cast<int>(target.shape[1]);
  const auto padded = static_cast<int>(image.shape[1]), frame = (padded - side) / 2;
  const auto* pixels = static_cast<const float*>(image.data);
  const auto* classes = static_cast<const float*>(target.data);
  std::vector<float> scores(info_of(logits.get()).bytes / sizeof(float));
  call(Exit::kCrashed, assay_tensor_read, logits.get(), static_cast<void*>(scores.data()),
       scores.size() * sizeof(float));  // a GPU's memory has no address here
  std::vector<SegmentedImage> images;
  for (int64_t row = 0; row < count; ++row) {
    SegmentedImage out{"", side, {}, {}, {}};
    for (int y = 0; y < side; ++y) {
      for (int x = 0; x < side; ++x) {
        const auto at = static_cast<size_t>((row * side + y) * side + x);
        out.image.push_back(pixels[(row * padded + y + frame) * padded + x + frame]);
        out.label.push_back(classes[2 * at + 1] > classes[2 * at]);
        out.predicted.push_back(scores[2 * at + 1] > scores[2 * at]);
      }
    }
    images.push_back(std::move(out));
  }
  return images;
}

}  // namespace reciperun::engine
