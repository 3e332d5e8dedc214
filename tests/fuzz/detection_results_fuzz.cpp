// Any bytes as COCO's results: refused with an Error, or read, scored, and the same when written
// and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "sdk/base/error.h"
#include "sdk/data/detection/results.h"

namespace {

using namespace assay::data;

// An object in the image 1, and a crowd.
const CocoInstances& truth() {
  static const CocoInstances made{
      .categories = {{1, "cat"}, {2, "dog"}},
      .images = {{1, "1.jpg", 480, 640}, {2, "2.jpg", 480, 640}},
      .objects = {{1, 1, 1, 10, 10, 20, 20, 400, false}, {2, 1, 1, 0, 0, 99, 99, 9801, true}},
      .begins = {0, 2, 2}};
  return made;
}

void score(const std::vector<Detection>& detections) {
  const AverageScores scores = score_detections(truth(), detections).all;
  for (const double number : {scores.ap, scores.ap50, scores.ar1, scores.ar100, scores.ap_small})
    if (!(number >= 0 && number <= 1)) std::abort();
  if (scores.ap_large != -1) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  try {
    const auto detections = parse_detection_results(input, "results");
    const std::string written = detection_results(detections);
    if (detection_results(parse_detection_results(written, "written")) != written) std::abort();
    score(detections);
  } catch (const assay::Error&) {
  }
  return 0;
}
