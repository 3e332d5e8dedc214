// How a picture becomes a sample of a model: its size, and what is done to its numbers.
#pragma once

#include <google/protobuf/struct.pb.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tools/predict/pictures.h"

namespace assay::tools {

// The keys are those of a loader's transform (assay_data.h, "Transforms") that a prediction needs.
struct Preparation {
  double scale = 1.0 / 255;  // a pixel p becomes (p scale + offset - mean) / stddev
  double offset = 0;
  std::vector<double> mean = {0}, stddev = {1};  // one number, or one for each channel
  int resize_shorter = 0;  // > 0: the shorter side gets so many pixels, and the middle is taken
  int padded_size = 0;     // > 0: the picture gets so many pixels a side, and zeros surround it
  std::vector<int> detector_size;  // rows and columns that a detector sees; none: the model says
};

// Reads the JSON object of a transform that evaluates. Keys that draw at random and unknown ones
// are errors (Error kUsage). The sizes of the result are the model's.
Preparation parse_preparation(const std::string& json);

// What one sample of the model looks like.
struct SampleShape {
  int height = 0, width = 0, channels = 0;
};

// The picture as `height` rows of `width` pixels of `channels` numbers. Grey pictures become red,
// green and blue alike where the model wants three channels; a fourth channel is zero. Fails
// (Error kUsage) if the preparation does not fit the shape.
std::vector<float> prepare(const Page& page, const Preparation& preparation,
                           const SampleShape& shape);

// Pixels of the picture per pixel of a detector's sample: the picture is fit into it.
float detector_scale(const cv::Size& picture, const SampleShape& shape);

// The same for a detector: the picture keeps its aspect and lies at the upper left corner, zeros
// fill what it leaves of the sample.
std::vector<float> prepare_for_detector(const Page& page, const Preparation& preparation,
                                        const SampleShape& shape);

}  // namespace assay::tools
