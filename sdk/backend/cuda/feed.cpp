#include "sdk/backend/cuda/feed.h"

#include <cstring>

#include "sdk/backend/cuda/kernels/kernels.h"
#include "sdk/backend/cuda/planner.h"

namespace assay::cuda {
namespace {

Element element_of(DType dtype) {
  return dtype == DType::kF16    ? Element::kF16
         : dtype == DType::kBf16 ? Element::kBf16
                                 : Element::kF32;
}

// Pinned memory and its device copy for one batch; arrays on 256-byte boundaries.
struct Slot {
  char* host = nullptr;
  char* device = nullptr;
  cudaEvent_t arrived = nullptr;    // on the device
  cudaEvent_t delivered = nullptr;  // from there to its targets
};

class DeviceFeed : public Feed {
 public:
  DeviceFeed(std::shared_ptr<DeviceState> device, const FeedSpec& spec)
      : device_(std::move(device)), bytes_(spec.array_bytes) {
    for (const size_t bytes : bytes_) {
      offsets_.push_back(slot_bytes_);
      slot_bytes_ += (bytes + 255) / 256 * 256;
    }
    make_level(spec);
    try {
      for (Slot& slot : slots_) make(slot);
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
    Slot& slot = slots_[next_ % kMostStaged];
    // The transfer of two batches ago has read the pinned memory; it is over long since.
    device_->use([&] { check(cudaEventSynchronize(slot.arrived), "waiting for a transfer"); });
    for (size_t i = 0; i < bytes_.size(); ++i)
      std::memcpy(slot.host + offsets_[i], arrays[i], bytes_[i]);
    device_->use([&] {
      check(cudaStreamWaitEvent(stream_, slot.delivered, 0), "ordering a transfer");
      check(cudaMemcpyAsync(slot.device, slot.host, slot_bytes_, cudaMemcpyHostToDevice, stream_),
            "copying a batch to the device");
      check(cudaEventRecord(slot.arrived, stream_), "recording an event");
    });
    ++next_;
    ++staged_;
  }
  size_t staged() const override { return staged_; }

  void deliver(std::span<const FeedCopy> copies, const FeedImages* images) override {
    require(staged_ > 0, Code::kInvalid, "no batch waits");
    const Slot& slot = slots_[(next_ - staged_) % kMostStaged];
    device_->use([&] {
      const cudaStream_t stream = device_->stream();
      check(cudaStreamWaitEvent(stream, slot.arrived, 0), "ordering a transfer");
      for (const FeedCopy& copy : copies)
        copy_on_device(stream, copy.target, slot.device + offsets_[copy.array], bytes_[copy.array]);
      if (images != nullptr) deliver_images(slot, *images);
      check(cudaEventRecord(slot.delivered, stream), "recording an event");
    });
    --staged_;
  }
  void clear() override { staged_ = 0; }

 private:
  void make(Slot& slot) {
    slot.host = static_cast<char*>(device_->allocate_host(slot_bytes_));
    slot.device = static_cast<char*>(device_->allocate(slot_bytes_));
    device_->use([&] {
      check(cudaEventCreateWithFlags(&slot.arrived, cudaEventDisableTiming), "making an event");
      check(cudaEventCreateWithFlags(&slot.delivered, cudaEventDisableTiming), "making an event");
      // The other stream's first transfer must find the memory cleared already.
      check(cudaEventRecord(slot.delivered, device_->stream()), "recording an event");
    });
  }

  void make_level(const FeedSpec& spec) {
    level_bytes_ = spec.level.size() * sizeof spec.level[0];
    if (level_bytes_ == 0) return;
    level_ = static_cast<float*>(device_->allocate(level_bytes_));
    device_->use([&] { device_->write(level_, spec.level.data(), level_bytes_); });
  }

  void deliver_images(const Slot& slot, const FeedImages& images) {
    const auto array = [&](size_t i) -> const void* { return slot.device + offsets_[i]; };
    kernels::PlacedImages placed{
        .rows = images.rows,
        .height = images.height,
        .width = images.width,
        .channels = images.channels,
        .target_channels = images.target_channels,
        .pixels = static_cast<const uint8_t*>(array(images.pixels)),
        .placements = static_cast<const int32_t*>(array(images.placements)),
        .level = level_,
        .weights = nullptr};
    if (images.mix != nullptr) {
      const FeedMix& mix = *images.mix;
      placed.weights = static_cast<const float*>(array(mix.weights));
      kernels::mix_targets(device_->stream(), static_cast<const int32_t*>(array(mix.labels)),
                           placed.weights, mix.smoothing, images.rows, mix.classes,
                           static_cast<float*>(mix.targets));
    }
    kernels::place_images(device_->stream(), element_of(images.dtype), placed, images.target);
  }

  void free_all() noexcept {
    for (Slot& slot : slots_) {
      if (slot.device != nullptr) device_->release(slot.device, slot_bytes_);
      if (slot.host != nullptr) device_->release_host(slot.host);
    }
    if (level_ != nullptr) device_->release(level_, level_bytes_);
    device_->release_with([&] {
      for (Slot& slot : slots_) {
        for (cudaEvent_t event : {slot.arrived, slot.delivered}) {
          if (event != nullptr) ignore(cudaEventDestroy(event));
        }
      }
      if (stream_ != nullptr) ignore(cudaStreamDestroy(stream_));
    });
  }

  std::shared_ptr<DeviceState> device_;
  std::vector<size_t> bytes_, offsets_;
  size_t slot_bytes_ = 0, level_bytes_ = 0;
  std::array<Slot, kMostStaged> slots_;
  float* level_ = nullptr;
  cudaStream_t stream_ = nullptr;
  uint64_t next_ = 0;
  size_t staged_ = 0;
};

}  // namespace

std::unique_ptr<Feed> make_device_feed(std::shared_ptr<DeviceState> device, const FeedSpec& spec) {
  return std::make_unique<DeviceFeed>(std::move(device), spec);
}

}  // namespace assay::cuda
