// One CUDA device as this process sees it, shared by everything that lives on it.
//
// All work of a backend is enqueued on one stream, under one lock, so that what the host reads is
// what the programs before have computed. An error that breaks the device's context (an illegal
// access, a lost device) poisons it: every later call fails with kPoisoned, and nothing is freed
// any more. The next backend made on the device resets it and tries it out. NVIDIA promises nothing
// of a process after such an error: where the device does not answer, that backend fails with
// kPoisoned as well, and the process has to be restarted.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>

#include "sdk/backend/cuda/check.h"
#include "sdk/backend/cuda/plugin.h"

namespace assay::cuda {

// Whether the process uses a device already.
bool has_context(int index);

// Makes `index` the thread's current device, and puts the host's back at the end; except for one
// that the process has not used yet, as choosing it would put a context of some hundred megabytes
// there.
class DeviceScope {
 public:
  explicit DeviceScope(int index);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int index_, before_ = 0;
};

// The time of a device between two resets. What is made on it must not be freed once that is over,
// or when the device has failed: libraries would reach into a context that is gone.
class DeviceLife {
 public:
  // The present one; a new one if the device has failed. kPoisoned if it cannot be revived.
  static DeviceLife begin(int index);

  bool is_current() const;  // not reset since
  bool is_healthy() const;  // nor failed
  // Notes that the device has failed.
  void poison() const;

  // An object that is freed while the device is healthy, and else given up.
  template <class T>
  std::shared_ptr<T> own(std::unique_ptr<T> object) const {
    return std::shared_ptr<T>(object.release(), [life = *this](T* owned) {
      if (life.is_healthy()) delete owned;
    });
  }

 private:
  DeviceLife(int index, uint64_t epoch) : index_(index), epoch_(epoch) {}
  int index_;
  uint64_t epoch_;  // how often the device had been reset
};

// Other devices, which work on this one waits for. Called under the device's lock, where work
// is put on a queue or waited for; freeing memory or a program waits without them.
class Peers {
 public:
  virtual ~Peers() = default;
  // Before work that needs them: fails if they are given up.
  virtual void require_open() const = 0;
  // Again and again while the host waits for this device: gives them up when one has failed or
  // `waited` is too long. Then what waits for them on the device ends; kTimeout if that does not.
  virtual void look_after(std::chrono::nanoseconds waited) = 0;
  // When the device has done its work: fails if some of that was in vain.
  virtual void require_arrival() = 0;
};

class DeviceState {
 public:
  explicit DeviceState(const Options& options);
  ~DeviceState();
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;

  const Options& options() const { return options_; }
  const DeviceLife& life() const { return life_; }
  cudaStream_t stream() const { return stream_; }
  cudaStream_t capture_stream() const { return capture_stream_; }
  // For a program's second queue: empty, but for that of the program that runs.
  cudaStream_t communication_stream() const { return communication_stream_; }
  // Of the programs' first queue (kernels.h).
  uint32_t* arrivals() const { return arrivals_; }

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

  // For destructors: runs body() on this device, unless it has failed: then nothing is freed.
  template <class Body>
  void release_with(const Body& body) const noexcept {
    if (!life_.is_healthy()) return;
    try {
      const DeviceScope scope(options_.index);
      body();
    } catch (const Error&) {  // the device fails just now
    }
  }

  // Device memory, zero-filled.
  void* allocate(size_t bytes);
  void release(void* data, size_t bytes) noexcept;
  // Pinned host memory, zero-filled.
  void* allocate_host(size_t bytes);
  void release_host(void* data) noexcept;

  // Of one channel at a time, kInvalid for a second one; until forget().
  void set_peers(Peers& peers);
  void forget(const Peers& peers) noexcept;
  // Within use(), before work that needs them.
  void require_peers() const {
    if (peers_ != nullptr) peers_->require_open();
  }

  // Within use(): copies in stream order. Small sources are taken over at once through pinned
  // pieces; large ones are waited for.
  void write(void* device, const void* host, size_t bytes);
  // Waits for the device once, however many there are.
  void read(std::span<const HostRead> reads);
  void synchronize();

 private:
  DeviceState(const Options& options, DeviceLife life) : options_(options), life_(life) {}

  static constexpr size_t kPieceBytes = 4096;  // scalars, and the labels and weights of a batch
  static constexpr size_t kPieces = 64;

  void require_healthy() const;
  void note(const Error& error);
  void wait_for_peers();

  Options options_;
  DeviceLife life_;
  cudaStream_t stream_ = nullptr, capture_stream_ = nullptr, communication_stream_ = nullptr;
  std::mutex mutex_;
  Peers* peers_ = nullptr;
  std::atomic<uint64_t> in_use_{0};
  uint32_t* arrivals_ = nullptr;
  char* pieces_ = nullptr;
  size_t used_pieces_ = 0;
};

}  // namespace assay::cuda
