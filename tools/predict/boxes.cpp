#include "tools/predict/boxes.h"

#include <fmt/core.h>

#include <algorithm>
#include <opencv2/imgproc.hpp>

namespace assay::tools {
namespace {

constexpr int kFont = cv::FONT_HERSHEY_SIMPLEX;

// As blue, green and red.
cv::Mat in_colours(const cv::Mat& picture) {
  cv::Mat out;
  const int channels = picture.channels();
  cv::cvtColor(picture, out,
               channels == 1   ? cv::COLOR_GRAY2BGR
               : channels == 4 ? cv::COLOR_RGBA2BGR
                               : cv::COLOR_RGB2BGR);
  return out;
}

// Neighbouring classes have hues far apart.
cv::Scalar colour_of(size_t of_class) {
  const auto hue = static_cast<uint8_t>(of_class * 67 % 180);
  const cv::Mat hsv(1, 1, CV_8UC3, cv::Scalar(hue, 220, 235));
  cv::Mat bgr;
  cv::cvtColor(hsv, bgr, cv::COLOR_HSV2BGR);
  const auto colour = bgr.at<cv::Vec3b>(0, 0);
  return {static_cast<double>(colour[0]), static_cast<double>(colour[1]),
          static_cast<double>(colour[2])};
}

// On a bar of the box's colour, above the box where there is room.
void draw_label(cv::Mat& on, const FoundBox& box, const std::string& label) {
  const double size = std::clamp(std::min(on.rows, on.cols) / 900.0, 0.35, 2.0);
  const int width = size > 1 ? 2 : 1;
  int below = 0;
  const cv::Size text = cv::getTextSize(label, kFont, size, width, &below);
  const int height = text.height + below + 2;
  const int left = std::clamp(static_cast<int>(box.left), 0, std::max(on.cols - text.width - 2, 0));
  const int top = std::max(static_cast<int>(box.top) - height, 0);
  cv::rectangle(on, cv::Rect(left, top, text.width + 2, height), colour_of(box.of_class),
                cv::FILLED);
  cv::putText(on, label, {left + 1, top + text.height + 1}, kFont, size, cv::Scalar(0, 0, 0), width,
              cv::LINE_AA);
}

}  // namespace

std::vector<FoundBox> found_boxes(const DetectorOutput& output, float least, float scale,
                                  const cv::Size& picture) {
  std::vector<FoundBox> found;
  for (size_t i = 0; i < output.classes.size() && output.classes[i] >= 0; ++i) {
    if (output.scores[i] < least) break;
    const auto within = [&](size_t side, int size) {
      return std::clamp(output.boxes[4 * i + side] * scale, 0.0f, static_cast<float>(size));
    };
    found.push_back({within(1, picture.width), within(0, picture.height), within(3, picture.width),
                     within(2, picture.height), output.scores[i],
                     static_cast<size_t>(output.classes[i])});
  }
  return found;
}

std::string box_line(const std::vector<FoundBox>& boxes, const ClassName& name) {
  std::string line;
  for (const FoundBox& box : boxes)
    line += fmt::format("\t{}\t{:.4f}\t{:.0f},{:.0f},{:.0f},{:.0f}", name(box.of_class), box.score,
                        box.left, box.top, box.right - box.left, box.bottom - box.top);
  return line;
}

cv::Mat drawn(const cv::Mat& picture, const std::vector<FoundBox>& boxes, const ClassName& name) {
  cv::Mat out = in_colours(picture);
  const int width = std::max(1, std::min(out.rows, out.cols) / 240);
  for (auto box = boxes.rbegin(); box != boxes.rend(); ++box) {
    const auto pixel = [&](float x, float y) {
      return cv::Point(std::min(static_cast<int>(x), out.cols - 1),
                       std::min(static_cast<int>(y), out.rows - 1));
    };
    const cv::Point from = pixel(box->left, box->top), to = pixel(box->right, box->bottom);
    cv::rectangle(out, from, to, colour_of(box->of_class), width);
    draw_label(out, *box, fmt::format("{} {:.2f}", name(box->of_class), box->score));
  }
  return out;
}

}  // namespace assay::tools
