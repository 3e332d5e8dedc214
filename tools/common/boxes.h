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

// An object that is there, in pixels of the picture.
struct KnownObject {
  float left, top, right, bottom;
  size_t of_class;
  bool found = false;
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

// An object is found if a box of its class overlaps it by one half (intersection over union), and
// of several objects the box is that of the one that it overlaps most, surer boxes first.
void mark_found(const std::vector<FoundBox>& boxes, std::vector<KnownObject>& objects);

using ClassName = std::function<std::string(size_t)>;

// Of each its name, its score, and left, top, width and height: "\tdog\t0.8312\t10,12,200,101".
std::string box_line(const std::vector<FoundBox>& boxes, const ClassName& name);

// A copy of the picture in blue, green and red, as OpenCV writes it, with the boxes and their
// names; a class always has the same colour, and surer ones lie above.
cv::Mat drawn(const cv::Mat& picture, const std::vector<FoundBox>& boxes, const ClassName& name);

// Draws objects into such a copy: white and thin; those that were not found thick, with their
// names.
void draw_objects(cv::Mat& on, const std::vector<KnownObject>& objects, const ClassName& name);

}  // namespace assay::tools
