// How long reading and scoring detections takes, on one thread, beside pycocotools
// (peers/coco_scores.py).
//
//   detection_bench INSTANCES RESULTS     one line of JSON: seconds, and the twelve scores
#include <chrono>
#include <cstdio>
#include <string>

#include "sdk/base/error.h"
#include "sdk/base/file.h"
#include "sdk/base/json_writer.h"
#include "sdk/data/detection/results.h"

namespace assay::data {
namespace {

// The seconds of a call, and what it gives.
template <class Call>
auto timed(JsonWriter& json, std::string_view name, Call&& call) {
  const auto start = std::chrono::steady_clock::now();
  auto result = call();
  json.key(name);
  json.real(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return result;
}

int run(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: detection_bench INSTANCES RESULTS\n");
    return 2;
  }
  const std::string instances = read_file(argv[1]), results = read_file(argv[2]);
  JsonWriter json;
  json.open('{');
  const auto truth =
      timed(json, "read_instances", [&] { return parse_coco_instances(instances, argv[1]); });
  const auto found =
      timed(json, "read_results", [&] { return parse_detection_results(results, argv[2]); });
  const AverageScores scores =
      timed(json, "score", [&] { return score_detections(truth, found).all; });
  timed(json, "write_results", [&] { return detection_results(found); });
  json.key("scores");
  json.open('[');
  for (const double number : {scores.ap, scores.ap50, scores.ap75, scores.ap_small,
                              scores.ap_medium, scores.ap_large, scores.ar1, scores.ar10,
                              scores.ar100, scores.ar_small, scores.ar_medium, scores.ar_large}) {
    json.next('[');
    json.real(number);
  }
  json.close(']');
  json.close('}');
  std::puts(json.take().c_str());
  return 0;
}

}  // namespace
}  // namespace assay::data

int main(int argc, char** argv) {
  try {
    return assay::data::run(argc, argv);
  } catch (const assay::Error& error) {
    std::fprintf(stderr, "detection_bench: %s\n", error.what());
    return 1;
  }
}
