// The loader on records of Fashion-MNIST's shape, without a network behind it: images per second.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "sdk/base/philox.h"
#include "sdk/base/proto_json.h"
#include "sdk/data/augment/image_transform.h"
#include "sdk/data/example.h"
#include "sdk/data/example.pb.h"
#include "sdk/data/loader.h"

namespace assay::data {
namespace {

constexpr int64_t kImages = 20000;
constexpr int64_t kBatch = 128;

std::shared_ptr<const RecordSource> made_up_records() {
  std::vector<std::string> payloads;
  PhiloxStream random(1, 1);
  for (int64_t i = 0; i < kImages; ++i) {
    std::string pixels(28 * 28, '\0');
    for (char& pixel : pixels) pixel = static_cast<char>(random.below(256));
    Example example;
    set_bytes_feature(example, "image", pixels);
    set_int64_feature(example, "height", 28);
    set_int64_feature(example, "width", 28);
    set_int64_feature(example, "channels", 1);
    set_int64_feature(example, "label", static_cast<int64_t>(random.below(10)));
    serialize_example(example, payloads.emplace_back());
  }
  return std::make_shared<MemorySource>(std::move(payloads));
}

// Arguments: workers, MiB of cache.
void load(benchmark::State& state, const std::string& transform_json) {
  static const auto kRecords = made_up_records();
  LoaderConfig config;
  config.batch_size = kBatch;
  config.workers = static_cast<int32_t>(state.range(0));
  config.cache_mib = static_cast<int32_t>(state.range(1));
  ImageTransformConfig transform;
  parse_json(transform_json, transform, "bench");
  Loader loader(kRecords, make_image_transform({{28, 28, 1}, 10}, transform), config);
  const auto epoch = static_cast<int64_t>(loader.batches_per_epoch());
  for (int64_t i = 0; i < epoch; ++i) loader.next();  // the first epoch fills the cache
  for (auto _ : state) benchmark::DoNotOptimize(loader.next());
  state.SetItemsProcessed(state.iterations() * kBatch);
}

void register_all(const char* name, const std::string& transform) {
  benchmark::RegisterBenchmark(name,
                               [transform](benchmark::State& state) { load(state, transform); })
      ->ArgNames({"workers", "cache_mib"})
      ->Args({0, 512})
      ->Args({1, 512})
      ->Args({2, 512})
      ->Args({1, 0})
      ->UseRealTime();
}

}  // namespace
}  // namespace assay::data

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  assay::data::register_all("plain", "{}");
  assay::data::register_all("crop_and_flip", R"({"crop_padding": 2, "flip_horizontal": 0.5})");
  assay::data::register_all("all",
                            R"({"crop_padding": 2, "flip_horizontal": 0.5, "rotation_degrees": 10,
                                       "erasing_probability": 0.5})");
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
