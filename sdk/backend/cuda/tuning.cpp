// The file of choices, lines "machine call<TAB>name", and timing on the device.
#include "sdk/backend/cuda/tuning.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <random>

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

namespace {

constexpr size_t kNoiseBytes = size_t{1} << 20;

// Two bytes each: a sign, and 0.5 to 2 as an f16, 2^-15 to 2 as a bf16 or as the upper half of an
// f32.
const std::vector<uint16_t>& noise() {
  static const std::vector<uint16_t> kNoise = [] {
    std::vector<uint16_t> words(kNoiseBytes / sizeof(uint16_t));
    std::minstd_rand next;
    for (uint16_t& word : words) {
      const auto bits = static_cast<uint32_t>(next() >> 8);
      word = static_cast<uint16_t>((bits & 0x8000u) | 0x3800u | (bits & 0x7ffu));
    }
    return words;
  }();
  return kNoise;
}

}  // namespace

TimingBuffer::TimingBuffer(size_t bytes, cudaStream_t stream)
    : TimingBuffer() {  // so that it is freed whatever fails from here on
  check(cudaMalloc(&data_, bytes == 0 ? 1 : bytes),
        cat("allocating ", bytes, " bytes for timing kernels"));
  auto* const begin = static_cast<char*>(data_);
  size_t filled = std::min(bytes, kNoiseBytes);
  check(cudaMemcpyAsync(begin, noise().data(), filled, cudaMemcpyHostToDevice, stream),
        "filling memory for timing");
  while (filled < bytes) {  // what is there once more
    const size_t piece = std::min(filled, bytes - filled);
    check(cudaMemcpyAsync(begin + filled, begin, piece, cudaMemcpyDeviceToDevice, stream),
          "filling memory for timing");
    filled += piece;
  }
}
TimingBuffer::~TimingBuffer() { ignore(cudaFree(data_)); }

TimingOperands::TimingOperands(const std::vector<size_t>& bytes, cudaStream_t stream) {
  constexpr size_t kCacheBytes = size_t{256} << 20;  // twice the largest there are
  const size_t all = std::accumulate(bytes.begin(), bytes.end(), size_t{1});
  const size_t sets = std::clamp<size_t>((kCacheBytes + all - 1) / all, 1, kTimedRuns);
  for (size_t set = 0; set < sets; ++set) {
    auto& operands = sets_.emplace_back();
    for (const size_t size : bytes) {
      buffers_.push_back(std::make_unique<TimingBuffer>(size, stream));
      operands.push_back(buffers_.back()->data());
    }
  }
}

std::span<void* const> TimingOperands::of(int run) const {
  return sets_[static_cast<size_t>(run) % sets_.size()];
}

double time_on_stream(cudaStream_t stream, const std::function<void(int run)>& enqueue) {
  constexpr int kCounted = kTimedRuns - 1;
  const TimedEvent begin, end;
  std::array<float, kCounted> milliseconds{};
  enqueue(0);  // may load the kernel
  for (int run = 1; run < kTimedRuns; ++run) {
    begin.record(stream);
    enqueue(run);
    end.record(stream);
    end.wait();
    milliseconds[static_cast<size_t>(run - 1)] = end.milliseconds_since(begin);
  }
  std::nth_element(milliseconds.begin(), milliseconds.begin() + kCounted / 2, milliseconds.end());
  return static_cast<double>(milliseconds[kCounted / 2]) * 1e-3;
}

std::optional<int64_t> fastest_of(int64_t count, cudaStream_t stream,
                                  const std::function<bool(int64_t)>& prepare,
                                  const std::function<void(int64_t, int run)>& enqueue) {
  std::optional<int64_t> best;
  double best_seconds = 0;
  for (int64_t i = 0, timed = 0; i < count && timed < kMostTimed; ++i) {
    try {
      if (!prepare(i)) continue;
      const double seconds = time_on_stream(stream, [&](int run) { enqueue(i, run); });
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
