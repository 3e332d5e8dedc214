// Two batches in turn, each in pinned and in device memory. Events order the feed's own stream and
// that of the programs; the host waits only before it writes pinned memory again.
#include "sdk/backend/cuda/feed.h"

#include <array>
#include <cstring>

#include "sdk/backend/cuda/planner.h"

namespace assay::cuda {
namespace {

// Pinned memory and its device copy for one batch; arrays on 256-byte boundaries.
struct StagedBatch {
  std::unique_ptr<Memory> pinned, copy;
  char* host() const { return static_cast<char*>(pinned->data()); }
  char* device() const { return static_cast<char*>(copy->data()); }
  cudaEvent_t arrived = nullptr;    // on the device
  cudaEvent_t delivered = nullptr;  // from there to its targets
};

class DeviceFeed : public Feed {
 public:
  DeviceFeed(std::shared_ptr<DeviceState> device, const FeedSpec& spec, Backend& memory)
      : device_(std::move(device)), bytes_(spec.array_bytes) {
    for (const size_t bytes : bytes_) {
      offsets_.push_back(batch_bytes_);
      batch_bytes_ += (bytes + 255) / 256 * 256;
    }
    try {
      for (StagedBatch& batch : batches_) make(batch, memory);
      device_->use([&] {
        check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a CUDA stream");
      });
    } catch (...) {
      free_all();
      throw;
    }
  }
  ~DeviceFeed() override { free_all(); }
  DeviceFeed(const DeviceFeed&) = delete;
  DeviceFeed& operator=(const DeviceFeed&) = delete;

  void stage(std::span<const void* const> arrays) override {
    require(staged_ < kMostStaged, Code::kInvalid, "two batches wait already");
    StagedBatch& batch = batches_[next_ % kMostStaged];
    // The transfer of two batches ago has read the pinned memory; it is over long since.
    device_->use([&] { check(cudaEventSynchronize(batch.arrived), "waiting for a transfer"); });
    for (size_t i = 0; i < bytes_.size(); ++i)
      std::memcpy(batch.host() + offsets_[i], arrays[i], bytes_[i]);
    device_->use([&] {
      check(cudaStreamWaitEvent(stream_, batch.delivered, 0), "ordering a transfer");
      check(cudaMemcpyAsync(batch.device(), batch.host(), batch_bytes_, cudaMemcpyHostToDevice,
                            stream_),
            "copying a batch to the device");
      check(cudaEventRecord(batch.arrived, stream_), "recording an event");
    });
    ++next_;
    ++staged_;
  }
  size_t staged() const override { return staged_; }

  void deliver(std::span<void* const> targets) override {
    require(staged_ > 0, Code::kInvalid, "no batch waits");
    const StagedBatch& batch = batches_[(next_ - staged_) % kMostStaged];
    device_->use([&] {
      const cudaStream_t stream = device_->stream();
      check(cudaStreamWaitEvent(stream, batch.arrived, 0), "ordering a transfer");
      for (size_t i = 0; i < bytes_.size(); ++i)
        copy_on_device(stream, targets[i], batch.device() + offsets_[i], bytes_[i]);
      check(cudaEventRecord(batch.delivered, stream), "recording an event");
    });
    --staged_;
  }
  // Transfers under way go on; what takes their place waits for them.
  void clear() override { staged_ = 0; }

 private:
  void make(StagedBatch& batch, Backend& memory) {
    batch.pinned = memory.allocate_host(batch_bytes_);
    batch.copy = memory.allocate(batch_bytes_);
    device_->use([&] {
      check(cudaEventCreateWithFlags(&batch.arrived, cudaEventDisableTiming), "making an event");
      check(cudaEventCreateWithFlags(&batch.delivered, cudaEventDisableTiming), "making an event");
      // The other stream's first transfer must find the memory cleared already.
      check(cudaEventRecord(batch.delivered, device_->stream()), "recording an event");
    });
  }

  void free_all() noexcept {
    device_->release_with([&] {
      for (StagedBatch& batch : batches_) {
        for (cudaEvent_t event : {batch.arrived, batch.delivered}) {
          if (event != nullptr) ignore(cudaEventDestroy(event));
        }
      }
      if (stream_ != nullptr) ignore(cudaStreamDestroy(stream_));
    });
  }

  std::shared_ptr<DeviceState> device_;
  std::vector<size_t> bytes_, offsets_;
  size_t batch_bytes_ = 0;
  std::array<StagedBatch, kMostStaged> batches_;
  cudaStream_t stream_ = nullptr;
  uint64_t next_ = 0;
  size_t staged_ = 0;
};

}  // namespace

std::unique_ptr<Feed> make_device_feed(std::shared_ptr<DeviceState> device, const FeedSpec& spec,
                                       Backend& memory) {
  return std::make_unique<DeviceFeed>(std::move(device), spec, memory);
}

}  // namespace assay::cuda
