// Networks that find objects in images: the boxes they learn from, their loss, and what they
// predict. What a box, an anchor and a level are stands in graph/ops.h.
#pragma once

#include <string>
#include <vector>

#include "sdk/graph/anchors.h"
#include "sdk/nn/builder.h"
#include "sdk/nn/output.h"

namespace assay::nn {

// Adds what an image's objects are given as in training and evaluation:
//   boxes    [99,4] f32, (ymin, xmin, ymax, xmax) in pixels
//   classes  [99] i32 in [0, classes), -1 behind the last
//   count    [] i32 of boxes; -1 in evaluation: the image is padding
void add_box_inputs(std::vector<InputSpec>& inputs, Mode mode, int64_t classes);

// What the heads say, from the first level to the last.
struct Detector {
  int64_t rows = 0, columns = 0;  // of the image
  int64_t first_level = 3;
  int64_t classes = 1;
  std::string suppression;            // of predictions: "soft" or "hard"; empty: soft
  std::vector<ValueId> class_logits;  // [N,h,w,9 classes]
  std::vector<ValueId> box_codes;     // [N,h,w,9*4]
};

//   training    loss = class_loss + 50 box_loss, both (DetectionLoss)
//   evaluation  the same, times the images of the batch, which are their weight; class_logits.L and
//               box_codes.L of each level L
//   prediction  the best 100: boxes [N,100,4] f32 as above; scores [N,100] f32, best first, 0
//   behind
//               the last; classes [N,100] i32, -1 behind the last. Of 5000 candidates, suppressed
//               softly by class as COCO's evaluation wants them, or over all classes by their
//               overlap (more than 0.5) where the score is above 0.4
// The inputs are those of add_box_inputs().
Outputs detector_outputs(Builder& b, const Detector& detector);

}  // namespace assay::nn
