// Which of several implementations a library call takes, and how that stays the same.
//
// Without a file the library's first proposal is taken: the same on every run. Where the
// environment variable ASSAY_CUDA_PLAN_CACHE names a file, proposals are timed once and the choice
// is kept there, keyed by call, types, library versions and GPU; later runs read it, so that they
// give the same bits as the run that chose.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sdk/backend/cuda/check.h"

namespace assay::cuda {

class Tuning {
 public:
  // `machine` is part of every key: GPU and versions.
  explicit Tuning(std::string machine);

  bool enabled() const { return !path_.empty(); }
  // The name chosen earlier, or nothing.
  std::string find(const std::string& call) const;
  // Remembers it, and appends it to the file. Failing to write is no error: the choice is made
  // again next time.
  void keep(const std::string& call, const std::string& name);

 private:
  std::string machine_, path_;
  mutable std::mutex mutex_;
  std::map<std::string, std::string> chosen_;
};

// Temporary device memory for timing, filled with noise: numbers of either sign and ordinary size
// in f32, bf16 and f16, as kernels draw less power, and run faster, on constants.
class TimingBuffer {
 public:
  TimingBuffer(size_t bytes, cudaStream_t stream);
  ~TimingBuffer();
  TimingBuffer(const TimingBuffer&) = delete;
  TimingBuffer& operator=(const TimingBuffer&) = delete;
  void* data() const { return data_; }

 private:
  TimingBuffer() = default;
  void* data_ = nullptr;
};

// Runs of one proposal, the first of which is not counted.
inline constexpr int kTimedRuns = 6;

// The operands of a call, of so many bytes each. Runs take turns at several sets of them, as far as
// that is needed for a set to have left the device's cache when its turn comes again: within a
// program, too, other nodes run in between.
class TimingOperands {
 public:
  TimingOperands(const std::vector<size_t>& bytes, cudaStream_t stream);
  std::span<void* const> of(int run) const;

 private:
  std::vector<std::unique_ptr<TimingBuffer>> buffers_;
  std::vector<std::vector<void*>> sets_;
};

// Median seconds of what `enqueue(run)` puts on the stream.
double time_on_stream(cudaStream_t stream, const std::function<void(int run)>& enqueue);

// Which of `count` proposals takes the least time; the first kMostTimed that work are timed.
// `prepare(i)` says whether there is such a proposal, and `enqueue(i, run)` runs it. One that fails
// is passed over, unless the device is lost with it: that error is raised. Nothing if none works.
inline constexpr int kMostTimed = 8;
std::optional<int64_t> fastest_of(int64_t count, cudaStream_t stream,
                                  const std::function<bool(int64_t)>& prepare,
                                  const std::function<void(int64_t, int run)>& enqueue);

}  // namespace assay::cuda
