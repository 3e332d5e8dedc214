// Detections in the form in which COCO takes results: one list of
// {"image_id": 1, "category_id": 18, "bbox": [x, y, width, height], "score": 0.9}.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/data/detection/detection_score.h"

namespace assay::data {

// Numbers in as many digits as read back the same; detections in their order.
std::string detection_results(std::span<const Detection> detections);

// `what` names the text in messages. Other members may stand beside these four. Fails with kFormat,
// saying where: text that is no JSON, results of another kind, a member that is missing or of
// another type, a box of negative width or height.
std::vector<Detection> parse_detection_results(std::string_view json, std::string_view what);

}  // namespace assay::data
