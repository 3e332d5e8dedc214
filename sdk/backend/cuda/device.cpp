#include "sdk/backend/cuda/device.h"

#include <cstring>

#include "sdk/backend/cuda/planner.h"

namespace assay::cuda {
namespace {

// What all backends of a device share, for the life of the process.
struct Health {
  std::mutex mutex;
  std::atomic<uint64_t> epoch{0};
  std::atomic<bool> poisoned{false};
};
Health& health_of(int index) {
  static std::array<Health, 64>& all = *new std::array<Health, 64>;
  return all[static_cast<size_t>(index) % all.size()];
}

// After a sticky error only a reset makes the device usable, and it ends everything on it.
uint64_t enter(int index) {
  Health& health = health_of(index);
  const std::lock_guard lock(health.mutex);
  if (health.poisoned) {
    check(cudaDeviceReset(), cat("resetting CUDA device ", index, " after its failure"));
    health.epoch.fetch_add(1);
    health.poisoned = false;
  }
  return health.epoch;
}

}  // namespace

DeviceScope::DeviceScope(int index) {
  check(cudaGetDevice(&before_), "asking for the current CUDA device");
  if (before_ != index) check(cudaSetDevice(index), cat("choosing CUDA device ", index));
}
DeviceScope::~DeviceScope() { static_cast<void>(cudaSetDevice(before_)); }

DeviceState::DeviceState(const Options& options) : options_(options) {
  const DeviceScope scope(options_.index);
  epoch_ = enter(options_.index);
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a CUDA stream");
  check(cudaStreamCreateWithFlags(&capture_stream_, cudaStreamNonBlocking), "making a CUDA stream");
  slots_ = static_cast<char*>(allocate_host(kSlots * kSlotBytes));
}

DeviceState::~DeviceState() {
  release_host(slots_);
  if (!is_current()) return;
  static_cast<void>(cudaStreamDestroy(stream_));
  static_cast<void>(cudaStreamDestroy(capture_stream_));
}

bool DeviceState::is_current() const { return epoch_ == health_of(options_.index).epoch; }

void DeviceState::require_healthy() const {
  const Health& health = health_of(options_.index);
  if (!health.poisoned && is_current()) [[likely]]
    return;
  ErrorDetail detail;
  detail.domain = Domain::kCuda;
  detail.hint = "free this context and everything made in it, and make a new one";
  fail(Code::kPoisoned,
       cat("CUDA device ", options_.index,
           " has failed earlier and lost what was on it; free this context and make a new one"),
       std::move(detail));
}

void DeviceState::note(const Error& error) {
  // A sticky error also hides behind the libraries' own codes: ask the device itself.
  const cudaError_t last = cudaPeekAtLastError();
  const bool reported = error.detail().domain == Domain::kCuda &&
                        is_sticky(static_cast<cudaError_t>(error.detail().native_code));
  if (reported || is_sticky(last)) health_of(options_.index).poisoned = true;
}

void* DeviceState::allocate(size_t bytes) {
  void* data = nullptr;
  use([&] {
    const cudaError_t result = cudaMalloc(&data, bytes == 0 ? 1 : bytes);
    if (result == cudaErrorMemoryAllocation) {
      size_t free = 0, total = 0;
      static_cast<void>(cudaGetLastError());
      static_cast<void>(cudaMemGetInfo(&free, &total));
      ErrorDetail detail;
      detail.domain = Domain::kCuda;
      detail.native_code = result;
      detail.hint = "use a smaller batch, or amp precision, or free other contexts and processes";
      fail(Code::kOutOfDeviceMemory,
           cat("CUDA device ", options_.index, " has no block of ", bytes, " bytes: ", free, " of ",
               total, " bytes are free, this context holds ", in_use_.load(),
               "; use a smaller batch, or free other contexts and processes"),
           std::move(detail));
    }
    check(result, cat("allocating ", bytes, " bytes on the device"));
    in_use_ += bytes;
    check(cudaMemsetAsync(data, 0, bytes, stream_), "clearing device memory");
  });
  return data;
}

void DeviceState::release(void* data, size_t bytes) noexcept {
  if (!is_current()) return;  // gone with the reset
  in_use_ -= bytes;
  static_cast<void>(cudaFree(data));  // waits for the device; fails quietly if it is poisoned
}

void* DeviceState::allocate_host(size_t bytes) {
  void* data = nullptr;
  use([&] {
    check(cudaHostAlloc(&data, bytes == 0 ? 1 : bytes, cudaHostAllocPortable),
          cat("allocating ", bytes, " bytes of pinned host memory"));
    std::memset(data, 0, bytes);
  });
  return data;
}

void DeviceState::release_host(void* data) noexcept {
  if (!is_current()) return;
  static_cast<void>(cudaFreeHost(data));
}

void DeviceState::synchronize() {
  check(cudaStreamSynchronize(stream_), "waiting for the device");
  used_slots_ = 0;
}

void DeviceState::write(void* device, const void* host, size_t bytes) {
  if (bytes == 0) return;
  if (bytes > kSlotBytes) {
    check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_),
          "copying to the device");
    return synchronize();
  }
  if (used_slots_ == kSlots) synchronize();
  char* slot = slots_ + kSlotBytes * used_slots_++;
  std::memcpy(slot, host, bytes);
  check(cudaMemcpyAsync(device, slot, bytes, cudaMemcpyHostToDevice, stream_),
        "copying to the device");
}

void DeviceState::read(std::span<const HostRead> reads) {
  const auto copy = [&](void* to, const HostRead& read) {
    check(cudaMemcpyAsync(to, read.device, read.bytes, cudaMemcpyDeviceToHost, stream_),
          "copying from the device");
  };
  if (used_slots_ + reads.size() > kSlots) synchronize();
  const size_t first = used_slots_;
  size_t slot = first;
  for (const HostRead& read : reads) {
    if (read.bytes == 0) continue;
    const bool small = read.bytes <= kSlotBytes && slot < kSlots;
    copy(small ? slots_ + kSlotBytes * slot++ : read.host, read);
  }
  synchronize();
  slot = first;
  for (const HostRead& read : reads) {
    if (read.bytes == 0 || read.bytes > kSlotBytes || slot == kSlots) continue;
    std::memcpy(read.host, slots_ + kSlotBytes * slot++, read.bytes);
  }
}

void copy_on_device(Stream stream, void* dst, const void* src, size_t bytes) {
  check(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, stream),
        "copying on the device");
}

}  // namespace assay::cuda
