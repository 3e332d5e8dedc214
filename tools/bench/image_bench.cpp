// Photographs on their way to the network: decode, crop, resize, flip, normalise, on one thread.
// Images per second, in the form of tools/bench/peers/image_pipeline.py.
//
//   image_bench FOLDER [ROUNDS]     every .jpg of the folder, ROUNDS times (default 3); JSON lines
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "sdk/base/error.h"
#include "sdk/base/file.h"
#include "sdk/base/proto_json.h"
#include "sdk/data/augment/jpeg_transform.h"

namespace assay::data {
namespace {

constexpr const char* kNormalise =
    R"("scale": 1, "mean": [123.68, 116.779, 103.939], "stddev": [58.393, 57.12, 57.375]})";

// What JpegMaker::prepare makes of a record: the label, then the file.
std::vector<std::string> prepared_images(const std::string& folder) {
  std::vector<std::string> images;
  for (const std::string& path : list_files(folder, "*.jpg")) {
    images.push_back(std::string(sizeof(int32_t), '\0') + read_file(path));
  }
  require(!images.empty(), Code::kNotFound, folder, " holds no .jpg files");
  return images;
}

void measure(const char* name, const std::string& json, const std::vector<std::string>& images,
             int rounds) {
  JpegTransformConfig config;
  parse_json(json, config, name);
  const Transform transform = make_jpeg_transform(1000, config);
  const auto maker = transform.make_worker();
  std::vector<float> image(static_cast<size_t>(transform.arrays[0].dims.numel()));
  int32_t label = 0;
  std::byte* const arrays[] = {reinterpret_cast<std::byte*>(image.data()),
                               reinterpret_cast<std::byte*>(&label)};
  std::vector<double> rates;
  for (int round = 0; round <= rounds; ++round) {  // the first warms up
    const auto start = std::chrono::steady_clock::now();
    for (size_t i = 0; i < images.size(); ++i) {
      PhiloxStream random(1, i, static_cast<uint64_t>(round));
      maker->finish(images[i], random, arrays);
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (round > 0) rates.push_back(static_cast<double>(images.size()) / seconds.count());
  }
  std::sort(rates.begin(), rates.end());
  std::printf(R"({"name": "%s", "peer": "assay", "images_per_second": %.1f, "images": %zu})"
              "\n",
              name, rates[rates.size() / 2], images.size());
}

int run(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: image_bench FOLDER [ROUNDS]\n");
    return 2;
  }
  const int rounds = argc == 3 ? std::max(std::atoi(argv[2]), 1) : 3;
  const auto images = prepared_images(argv[1]);
  const std::string tail = std::string(", ") + kNormalise;
  measure("train", R"({"crop": "random", "flip_horizontal": 0.5)" + tail, images, rounds);
  measure("train_exact",
          R"({"crop": "random", "flip_horizontal": 0.5, "reduced_decoding": false)" + tail, images,
          rounds);
  measure("eval", R"({"crop": "centre")" + tail, images, rounds);
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
