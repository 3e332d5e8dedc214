// Photographs on their way to a classifier (decode, crop, resize, flip, normalise) and to a
// detector (decode, normalise, flip, resize, crop, pad to 512 x 512), on one thread. Images per
// second of processor time, in the form of tools/bench/peers/image_pipeline.py.
//
//   image_bench FOLDER [ROUNDS]     every .jpg of the folder, ROUNDS times (default 3); JSON lines
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "sdk/base/error.h"
#include "sdk/base/file.h"
#include "sdk/base/proto_json.h"
#include "sdk/data/augment/detection_transform.h"
#include "sdk/data/augment/jpeg_transform.h"
#include "sdk/data/detection_records.h"
#include "sdk/data/example.pb.h"

namespace assay::data {
namespace {

constexpr const char* kNormalise =
    R"("scale": 1, "mean": [123.68, 116.779, 103.939], "stddev": [58.393, 57.12, 57.375]})";

std::vector<std::string> read_images(const std::string& folder) {
  std::vector<std::string> images;
  for (const std::string& path : list_files(folder, "*.jpg")) images.push_back(read_file(path));
  require(!images.empty(), Code::kNotFound, folder, " holds no .jpg files");
  return images;
}

std::string labelled_record(const std::string& jpeg) {
  Example example;
  set_bytes_feature(example, "jpeg", jpeg);
  set_int64_feature(example, "label", 0);
  std::string record;
  serialize_example(example, record);
  return record;
}

// With seven boxes, as many as an image of COCO has in the mean.
std::string boxes_record(const std::string& jpeg) {
  DetectionRecord detection;
  detection.jpeg = jpeg;
  detection.objects.assign(7, {.ymin = 0.25f, .xmin = 0.25f, .ymax = 0.5f, .xmax = 0.5f});
  std::string record;
  write_detection(detection, record);
  return record;
}

// Finishes every record once a round, and prints the median round's rate.
void measure(const char* name, const Transform& transform, const std::vector<std::string>& records,
             int rounds) {
  const auto maker = transform.make_worker();
  std::vector<std::string> prepared(records.size());
  for (size_t i = 0; i < records.size(); ++i) maker->prepare(records[i], prepared[i]);
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::byte*> arrays;
  for (const ArraySpec& spec : transform.arrays)
    arrays.push_back(memory.emplace_back(spec.sample_bytes()).data());
  std::vector<double> rates;
  for (int round = 0; round <= rounds; ++round) {  // the first warms up
    const std::clock_t start = std::clock();
    for (size_t i = 0; i < prepared.size(); ++i) {
      PhiloxStream random(1, i, static_cast<uint64_t>(round));
      maker->finish(prepared[i], random, arrays);
    }
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    if (round > 0) rates.push_back(static_cast<double>(prepared.size()) / seconds);
  }
  std::sort(rates.begin(), rates.end());
  std::printf(R"({"name": "%s", "peer": "assay", "images_per_second": %.1f, "images": %zu})"
              "\n",
              name, rates[rates.size() / 2], prepared.size());
}

void measure_labelled(const std::vector<std::string>& images, int rounds) {
  std::vector<std::string> records;
  for (const std::string& image : images) records.push_back(labelled_record(image));
  const auto each = [&](const char* name, const std::string& json) {
    JpegTransformConfig config;
    parse_json(json + ", " + kNormalise, config, name);
    measure(name, make_jpeg_transform(1000, config), records, rounds);
  };
  each("train", R"({"crop": "random", "flip_horizontal": 0.5)");
  each("train_exact", R"({"crop": "random", "flip_horizontal": 0.5, "reduced_decoding": false)");
  each("eval", R"({"crop": "centre")");
}

void measure_detection(const std::vector<std::string>& images, int rounds) {
  std::vector<std::string> records;
  for (const std::string& image : images) records.push_back(boxes_record(image));
  const auto each = [&](const char* name, const std::string& json) {
    DetectionTransformConfig config;
    parse_json(json + ", " + kNormalise, config, name);
    measure(name, make_detection_transform(90, config), records, rounds);
  };
  each("detect_train", R"({"scale_jitter": [0.1, 2], "flip_horizontal": 0.5)");
  each("detect_eval", R"({"size": [512, 512])");
}

int run(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: image_bench FOLDER [ROUNDS]\n");
    return 2;
  }
  const int rounds = argc == 3 ? std::max(std::atoi(argv[2]), 1) : 3;
  const auto images = read_images(argv[1]);
  measure_labelled(images, rounds);
  measure_detection(images, rounds);
  return 0;
}

}  // namespace
}  // namespace assay::data

int main(int argc, char** argv) {
  try {
    return assay::data::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "image_bench: %s\n", error.what());
    return 1;
  }
}
