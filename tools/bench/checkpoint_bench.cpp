// Writing, opening and verifying checkpoints of different sizes.
#include <benchmark/benchmark.h>

#include <filesystem>
#include <string>
#include <vector>

#include "sdk/train/checkpoint/checkpoint.h"

namespace assay::checkpoint {
namespace {

// One file of `megabytes` in eight tensors; removed at the end.
struct File {
  explicit File(int64_t megabytes)
      : path((std::filesystem::temp_directory_path() / "assay_checkpoint_bench.ckpt").string()),
        numbers(static_cast<size_t>(megabytes) * (1 << 20) / sizeof(float) / 8, 1.0f) {
    for (int i = 0; i < 8; ++i) {
      records.push_back({"tensor" + std::to_string(i), Role::kValue, DType::kF32,
                         Dims{static_cast<int64_t>(numbers.size())},
                         std::as_bytes(std::span(numbers))});
    }
  }
  ~File() { std::filesystem::remove(path); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  void write() const { write_checkpoint(path, {}, records); }

  std::string path;
  std::vector<float> numbers;
  std::vector<TensorRecord> records;
};

void save(benchmark::State& state) {
  const File file(state.range(0));
  for (auto _ : state) file.write();
  state.SetBytesProcessed(state.iterations() * state.range(0) * (1 << 20));
}

void open(benchmark::State& state) {
  const File file(state.range(0));
  file.write();
  for (auto _ : state) benchmark::DoNotOptimize(CheckpointReader::open(file.path).tensors().size());
}

void verify(benchmark::State& state) {
  const File file(state.range(0));
  file.write();
  for (auto _ : state) CheckpointReader::open(file.path).verify_all();
  state.SetBytesProcessed(state.iterations() * state.range(0) * (1 << 20));
}

BENCHMARK(save)->ArgName("MiB")->Arg(1)->Arg(128)->UseRealTime();
BENCHMARK(open)->ArgName("MiB")->Arg(1)->Arg(128)->UseRealTime();
BENCHMARK(verify)->ArgName("MiB")->Arg(1)->Arg(128)->UseRealTime();

}  // namespace
}  // namespace assay::checkpoint

BENCHMARK_MAIN();
