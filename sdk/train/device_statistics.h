// The running statistics of a model during an update of several batches: of each emulated device,
// and as they were before, for an update that is not done after all.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "sdk/runtime/segments.h"

namespace assay::train {

// All copies stay on the device and no call waits for them. Their memory is taken by the first
// update. Between updates the model holds the first device's statistics.
class DeviceStatistics {
 public:
  DeviceStatistics(const Segments& segments, int64_t devices)
      : segments_(segments), devices_(devices) {}

  // What the copies take, in bytes, for statistics of so many.
  static uint64_t bytes(uint64_t statistics, int64_t devices) {
    return devices == 1 ? statistics : 2 * statistics * static_cast<uint64_t>(devices);
  }

  // Every device starts from the statistics that the model holds now: at first, and after others
  // were loaded.
  void restart() { started_ = false; }
  // Puts a device's statistics into the model, where programs read and move them.
  void select(int64_t device);
  // Calls body with a device's statistics in the model, and the first device's afterwards.
  template <class Body>
  void with(int64_t device, const Body& body) {
    select(device);
    try {
      body();
    } catch (...) {  // no destructor: what it does may fail
      select(0);
      throw;
    }
    select(0);
  }
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
