// The running statistics of a model during an update of several batches: of each emulated device,
// and as they were before, for an update that is not done after all.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "sdk/runtime/segments.h"

namespace assay::train {

// All copies stay on the device and no call waits for them. Between updates the model holds the
// first device's statistics. Once reserve has taken the memory only a device can fail.
class DeviceStatistics {
 public:
  DeviceStatistics(const Segments& segments, int64_t devices)
      : segments_(segments), devices_(devices) {}

  // What the copies take, in bytes, for statistics of so many.
  static uint64_t bytes(uint64_t statistics, int64_t devices) {
    return devices == 1 ? statistics : 2 * statistics * static_cast<uint64_t>(devices);
  }

  void reserve();
  // Every device starts from the statistics that the model holds now: at first, and after others
  // were loaded.
  void restart() { started_ = false; }
  // Puts a device's statistics into the model, where programs read and move them. If that fails
  // the model may have those of another one.
  void select(int64_t device);
  // The bytes of another device than the first, for checkpoints between updates: none before the
  // first update. They lie as in Segments::save(Role::kStatistic).
  std::vector<std::byte> save(int64_t device) const;
  // After restart(); `bytes` of save(), from a model of the same variables.
  void restore(int64_t device, std::span<const std::byte> bytes);
  int64_t devices() const { return devices_; }
  size_t size() const { return segments_.memory(Role::kStatistic).bytes(); }  // of one device
  // Those of all devices, before an update.
  void take();
  // After a take.
  void put_back();

 private:
  void start();
  void* in_model() const { return segments_.memory(Role::kStatistic).data(); }
  void* held(int64_t device) const;

  const Segments& segments_;
  int64_t devices_;
  int64_t selected_ = 0;
  bool started_ = false;
  std::unique_ptr<Memory> held_;  // [devices][size()]; the selected one's are in the model
  std::unique_ptr<Memory> saved_;
};

}  // namespace assay::train
