// Boxes in pictures with OpenCV, which keeps colours as blue, green, red.
#include "tools/common/boxes.h"

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

// The corners of a box or an object, within the picture.
template <class Box>
cv::Rect outline(const cv::Mat& on, const Box& box) {
  const auto pixel = [&](float x, float y) {
    return cv::Point(std::min(static_cast<int>(x), on.cols - 1),
                     std::min(static_cast<int>(y), on.rows - 1));
  };
  const cv::Point from = pixel(box.left, box.top), to = pixel(box.right, box.bottom);
  return {from, to + cv::Point(1, 1)};  // a rectangle ends behind its last pixel
}

int line_width(const cv::Mat& on) { return std::max(1, std::min(on.rows, on.cols) / 240); }

// On a bar of a colour, above the box where there is room.
template <class Box>
void draw_label(cv::Mat& on, const Box& box, const std::string& label, const cv::Scalar& colour) {
  const double size = std::clamp(std::min(on.rows, on.cols) / 900.0, 0.35, 2.0);
  const int width = size > 1 ? 2 : 1;
  int below = 0;
  const cv::Size text = cv::getTextSize(label, kFont, size, width, &below);
  const int height = text.height + below + 2;
  const int left = std::clamp(static_cast<int>(box.left), 0, std::max(on.cols - text.width - 2, 0));
  const int top = std::max(static_cast<int>(box.top) - height, 0);
  cv::rectangle(on, cv::Rect(left, top, text.width + 2, height), colour, cv::FILLED);
  cv::putText(on, label, {left + 1, top + text.height + 1}, kFont, size, cv::Scalar(0, 0, 0), width,
              cv::LINE_AA);
}

template <class Box>
float area(const Box& box) {
  return std::max(box.right - box.left, 0.0f) * std::max(box.bottom - box.top, 0.0f);
}

float overlap(const FoundBox& a, const KnownObject& b) {
  const FoundBox both{std::max(a.left, b.left),
                      std::max(a.top, b.top),
                      std::min(a.right, b.right),
                      std::min(a.bottom, b.bottom),
                      0,
                      0};
  const float shared = area(both);
  return shared > 0 ? shared / (area(a) + area(b) - shared) : 0;
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

void mark_found(const std::vector<FoundBox>& boxes, std::vector<KnownObject>& objects) {
  for (const FoundBox& box : boxes) {
    KnownObject* best = nullptr;
    float most = 0.5f;
    for (KnownObject& object : objects) {
      if (object.found || object.of_class != box.of_class) continue;
      const float by = overlap(box, object);
      if (by >= most) most = by, best = &object;
    }
    if (best != nullptr) best->found = true;
  }
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
  for (auto box = boxes.rbegin(); box != boxes.rend(); ++box) {
    const cv::Scalar colour = colour_of(box->of_class);
    cv::rectangle(out, outline(out, *box), colour, line_width(out));
    draw_label(out, *box, fmt::format("{} {:.2f}", name(box->of_class), box->score), colour);
  }
  return out;
}

void draw_objects(cv::Mat& on, const std::vector<KnownObject>& objects, const ClassName& name) {
  const cv::Scalar white(255, 255, 255);
  for (const KnownObject& object : objects) {
    cv::rectangle(on, outline(on, object), white, object.found ? 1 : 2 * line_width(on));
    if (!object.found) draw_label(on, object, name(object.of_class), white);
  }
}

}  // namespace assay::tools
