// What a detector found in a picture: read from its outputs, told in a line, drawn.
#pragma once

#include <cstdint>
#include <functional>
#include <opencv2/core/mat.hpp>
#include <string>
#include <vector>

namespace assay::tools {

// In pixels of the picture, within it.
struct FoundBox {
  float left, top, right, bottom;
  float score;  // probability
  size_t of_class;
};

// What a detector gives for one sample, best first: boxes (ymin, xmin, ymax, xmax) in pixels of the
// sample; a class below 0 ends the list.
struct DetectorOutput {
  std::vector<float> boxes, scores;
  std::vector<int32_t> classes;
};

// Those with at least the score `least`. `scale`: pixels of the picture per pixel of the sample.
std::vector<FoundBox> found_boxes(const DetectorOutput& output, float least, float scale,
                                  const cv::Size& picture);

using ClassName = std::function<std::string(size_t)>;

// Of each its name, its score, and left, top, width and height: "\tdog\t0.8312\t10,12,200,101".
std::string box_line(const std::vector<FoundBox>& boxes, const ClassName& name);

// A copy of the picture in blue, green and red, as OpenCV writes it, with the boxes and their
// names; a class always has the same colour, and surer ones lie above.
cv::Mat drawn(const cv::Mat& picture, const std::vector<FoundBox>& boxes, const ClassName& name);

}  // namespace assay::tools
