// Which of several implementations a library call takes, and how that stays the same.
//
// Without a file the library's first proposal is taken: the same on every run. Where the
// environment variable ASSAY_CUDA_PLAN_CACHE names a file, proposals are timed once and the choice
// is kept there, keyed by call, types, library versions and GPU; later runs read it, so that they
// give the same bits as the run that chose.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

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

// Temporary device memory for timing: constant bytes that make ordinary numbers, as zeros would
// run faster.
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

// Median seconds of a few runs of what `enqueue` puts on the stream, after one that does not count.
double time_on_stream(cudaStream_t stream, const std::function<void()>& enqueue);

// Which of `count` proposals takes the least time; the first kMostTimed that work are timed.
// `prepare(i)` says whether there is such a proposal, and `enqueue(i)` runs it. One that fails is
// passed over, unless the device is lost with it: that error is raised. Nothing if none works.
inline constexpr int kMostTimed = 8;
std::optional<int64_t> fastest_of(int64_t count, cudaStream_t stream,
                                  const std::function<bool(int64_t)>& prepare,
                                  const std::function<void(int64_t)>& enqueue);

}  // namespace assay::cuda
