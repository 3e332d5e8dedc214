// One CUDA device as this process sees it, shared by everything that lives on it.
//
// All work of a backend is enqueued on one stream, under one lock, so that what the host reads is
// what the programs before have computed. An error that breaks the device's context (an illegal
// access, a lost device) poisons it: every later call fails with kPoisoned, nothing is freed any
// more, and the next backend made on the device resets it and starts afresh.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include "sdk/backend/cuda/check.h"
#include "sdk/backend/cuda/plugin.h"

namespace assay::cuda {

// Makes `index` the thread's current device, and puts the host's back at the end.
class DeviceScope {
 public:
  explicit DeviceScope(int index);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int before_ = 0;
};

class DeviceState {
 public:
  explicit DeviceState(const Options& options);
  ~DeviceState();
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;

  const Options& options() const { return options_; }
  // Whether what was made on it is still there: false once the device was reset.
  bool is_current() const;
  cudaStream_t stream() const { return stream_; }
  cudaStream_t capture_stream() const { return capture_stream_; }

  // Runs body() alone, on this device; notices what poisons it.
  template <class Body>
  void use(const Body& body) {
    const std::lock_guard lock(mutex_);
    require_healthy();
    const DeviceScope scope(options_.index);
    try {
      body();
    } catch (const Error& error) {
      note(error);
      throw;
    }
  }

  // Device memory, zero-filled; `release` ignores memory from before a reset.
  void* allocate(size_t bytes);
  void release(void* data, size_t bytes) noexcept;
  // Pinned host memory, zero-filled.
  void* allocate_host(size_t bytes);
  void release_host(void* data) noexcept;

  // Within use(): copies in stream order. Small sources are taken over at once through pinned
  // slots; large ones are waited for.
  void write(void* device, const void* host, size_t bytes);
  // Waits for the device once, however many there are.
  void read(std::span<const HostRead> reads);
  void synchronize();

 private:
  static constexpr size_t kSlotBytes = 4096;  // scalars, and the labels and weights of a batch
  static constexpr size_t kSlots = 64;

  void require_healthy() const;
  void note(const Error& error);

  Options options_;
  uint64_t epoch_ = 0;  // how often the device had been reset when this was made
  cudaStream_t stream_ = nullptr, capture_stream_ = nullptr;
  std::mutex mutex_;
  std::atomic<uint64_t> in_use_{0};
  char* slots_ = nullptr;
  size_t used_slots_ = 0;
};

}  // namespace assay::cuda
