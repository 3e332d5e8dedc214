#include "sdk/train/device_statistics.h"

namespace assay::train {

void* DeviceStatistics::held(int64_t device) const {
  return static_cast<std::byte*>(held_->data()) + static_cast<size_t>(device) * size();
}

void DeviceStatistics::reserve() {
  const size_t bytes = static_cast<size_t>(devices_) * size();
  if (devices_ > 1 && !held_) held_ = segments_.backend().allocate(bytes);
  if (!saved_) saved_ = segments_.backend().allocate(bytes);
}

void DeviceStatistics::start() {
  if (started_ || devices_ == 1) return;
  reserve();
  Backend& backend = segments_.backend();
  for (int64_t device = 0; device < devices_; ++device)
    backend.copy(held(device), in_model(), size());
  started_ = true;
}

void DeviceStatistics::select(int64_t device) {
  start();
  if (device == selected_) return;
  segments_.backend().copy(held(selected_), in_model(), size());
  segments_.backend().copy(in_model(), held(device), size());
  selected_ = device;
}

std::vector<std::byte> DeviceStatistics::save(int64_t device) const {
  if (!started_) return {};
  std::vector<std::byte> bytes(size());
  segments_.backend().read(bytes.data(), held(device), bytes.size());
  return bytes;
}

void DeviceStatistics::restore(int64_t device, std::span<const std::byte> bytes) {
  start();
  segments_.backend().write(held(device), bytes.data(), bytes.size());
}

void DeviceStatistics::take() {
  reserve();
  start();
  Backend& backend = segments_.backend();
  if (devices_ > 1) backend.copy(held(selected_), in_model(), size());
  const void* all = devices_ > 1 ? held_->data() : in_model();
  backend.copy(saved_->data(), all, saved_->bytes());
}

void DeviceStatistics::put_back() {
  Backend& backend = segments_.backend();
  if (devices_ > 1) backend.copy(held_->data(), saved_->data(), saved_->bytes());
  backend.copy(in_model(), saved_->data(), size());
  selected_ = 0;
}

}  // namespace assay::train
