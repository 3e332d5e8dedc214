// The file of choices, lines "machine call<TAB>name", and timing on the device.
#include "sdk/backend/cuda/tuning.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>

#include "sdk/backend/cuda/timed_event.h"

namespace assay::cuda {

Tuning::Tuning(std::string machine) : machine_(std::move(machine)) {
  const char* path = std::getenv("ASSAY_CUDA_PLAN_CACHE");
  if (path == nullptr || *path == '\0') return;
  path_ = path;
  std::ifstream file(path_);
  for (std::string line; std::getline(file, line);) {  // "<key>\t<name>"; others are ignored
    const size_t tab = line.find('\t');
    if (tab != std::string::npos) chosen_[line.substr(0, tab)] = line.substr(tab + 1);
  }
}

std::string Tuning::find(const std::string& call) const {
  const std::lock_guard lock(mutex_);
  const auto found = chosen_.find(cat(machine_, " ", call));
  return found == chosen_.end() ? "" : found->second;
}

void Tuning::keep(const std::string& call, const std::string& name) {
  const std::lock_guard lock(mutex_);
  const std::string key = cat(machine_, " ", call);
  chosen_[key] = name;
  // One write of one line: programs that tune at once do not tear each other's.
  std::ofstream(path_, std::ios::app) << cat(key, "\t", name, "\n");
}

TimingBuffer::TimingBuffer(size_t bytes, cudaStream_t stream)
    : TimingBuffer() {  // so that it is freed whatever fails from here on
  check(cudaMalloc(&data_, bytes == 0 ? 1 : bytes),
        cat("allocating ", bytes, " bytes for timing kernels"));
  // Bytes that make a finite number of ordinary size in f32, bf16 and f16.
  check(cudaMemsetAsync(data_, 0x3c, bytes, stream), "filling memory for timing");
}
TimingBuffer::~TimingBuffer() { ignore(cudaFree(data_)); }

double time_on_stream(cudaStream_t stream, const std::function<void()>& enqueue) {
  constexpr int kRuns = 5;
  const TimedEvent begin, end;
  std::array<float, kRuns> milliseconds{};
  // The first run, which may load the kernel, is not counted.
  enqueue();
  for (float& time : milliseconds) {
    begin.record(stream);
    enqueue();
    end.record(stream);
    end.wait();
    time = end.milliseconds_since(begin);
  }
  std::nth_element(milliseconds.begin(), milliseconds.begin() + kRuns / 2, milliseconds.end());
  return static_cast<double>(milliseconds[kRuns / 2]) * 1e-3;
}

std::optional<int64_t> fastest_of(int64_t count, cudaStream_t stream,
                                  const std::function<bool(int64_t)>& prepare,
                                  const std::function<void(int64_t)>& enqueue) {
  std::optional<int64_t> best;
  double best_seconds = 0;
  for (int64_t i = 0, timed = 0; i < count && timed < kMostTimed; ++i) {
    try {
      if (!prepare(i)) continue;
      const double seconds = time_on_stream(stream, [&] { enqueue(i); });
      ++timed;
      if (!best || seconds < best_seconds) best = i, best_seconds = seconds;
    } catch (const Error&) {
      // A choice that fails is left out, unless its error stays with the device.
      const cudaError_t state = cudaStreamSynchronize(stream);
      ignore(state);
      if (is_sticky(state)) throw;
    }
  }
  return best;
}

}  // namespace assay::cuda
