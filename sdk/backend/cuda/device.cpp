// One device: its streams and lock, pinned pieces for small transfers, and what becomes of it after
// an error that breaks its context.
#include "sdk/backend/cuda/device.h"

#include <cuda.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include "sdk/backend/cuda/kernels/kernels.h"
#include "sdk/backend/cuda/planner.h"

namespace assay::cuda {
namespace {

constexpr size_t kArrivalBytes = kernels::kArrivals * sizeof(uint32_t);

// What all backends of a device share, for the life of the process.
struct Health {
  std::mutex mutex;
  std::atomic<uint64_t> epoch{0};
  std::atomic<bool> poisoned{false};
};
Health& health_of(int index) {
  // Never destroyed: objects of the host may outlive static destructors.
  static std::array<Health, 64>& all = *new std::array<Health, 64>;
  return all[static_cast<size_t>(index) % all.size()];
}

// Whether the current device takes memory and work.
bool answers() {
  constexpr int64_t kFloats = 64;
  void* data = nullptr;
  cudaStream_t stream = nullptr;
  try {
    check(cudaFree(nullptr), "making a context");
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a CUDA stream");
    check(cudaMalloc(&data, kFloats * sizeof(float)), "allocating memory");
    kernels::fill(stream, static_cast<float*>(data), 1.0f, kFloats);
    check(cudaStreamSynchronize(stream), "waiting for a kernel");
    check(cudaFree(data), "freeing memory");
    check(cudaStreamDestroy(stream), "ending a stream");
    return true;
  } catch (const Error&) {  // what it holds is lost anyway
    return false;
  }
}

[[noreturn]] void fail_poisoned(int index, std::string_view what, std::string hint) {
  ErrorDetail detail;
  detail.domain = Domain::kCuda;
  const std::string message = cat("CUDA device ", index, " ", what, "; ", hint);
  detail.hint = std::move(hint);
  fail(Code::kPoisoned, message, std::move(detail));
}

}  // namespace

bool has_context(int index) {
  using GetState = CUresult (*)(CUdevice, unsigned*, int*);
  static const auto kGetState = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
    ignore(cudaGetDriverEntryPointByVersion("cuDevicePrimaryCtxGetState", &function, 7000,
                                            cudaEnableDefault, &found));
    return reinterpret_cast<GetState>(function);
  }();
  unsigned flags = 0;
  int active = 1;
  if (kGetState != nullptr) static_cast<void>(kGetState(index, &flags, &active));
  return active != 0;
}

DeviceScope::DeviceScope(int index) : index_(index) {
  check(cudaGetDevice(&before_), "asking for the current CUDA device");
  if (before_ == index_) return;
  const cudaError_t result = cudaSetDevice(index_);
  if (is_sticky(result)) {
    ignore(result);  // it is chosen all the same; what comes next reports the error
  } else {
    check(result, cat("choosing CUDA device ", index_));
  }
}
DeviceScope::~DeviceScope() {
  if (before_ != index_ && has_context(before_)) ignore(cudaSetDevice(before_));
}

DeviceLife DeviceLife::begin(int index) {
  const DeviceScope scope(index);
  Health& health = health_of(index);
  const std::lock_guard lock(health.mutex);
  if (health.poisoned) {
    ++health.epoch;  // whatever comes of it: nothing of before is freed any more
    ignore(cudaDeviceReset());
    if (!answers()) {
      fail_poisoned(index, "has failed earlier and does not answer after a reset",
                    "restart the process");
    }
    health.poisoned = false;
  }
  return {index, health.epoch};
}

bool DeviceLife::is_current() const { return epoch_ == health_of(index_).epoch; }
bool DeviceLife::is_healthy() const { return is_current() && !health_of(index_).poisoned; }

void DeviceLife::poison() const {
  Health& health = health_of(index_);
  const std::lock_guard lock(health.mutex);
  if (is_current()) health.poisoned = true;  // else it was reset meanwhile
}

DeviceState::DeviceState(const Options& options)
    : DeviceState(options, DeviceLife::begin(options.index)) {
  // There is an object now: its destructor frees what has been made when something fails.
  const DeviceScope scope(options_.index);
  for (cudaStream_t* stream : {&stream_, &capture_stream_, &communication_stream_})
    check(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), "making a CUDA stream");
  arrivals_ = static_cast<uint32_t*>(allocate(kArrivalBytes));
  pieces_ = static_cast<char*>(allocate_host(kPieces * kPieceBytes));
}

DeviceState::~DeviceState() {
  if (pieces_ != nullptr) release_host(pieces_);
  if (arrivals_ != nullptr) release(arrivals_, kArrivalBytes);
  release_with([&] {
    for (cudaStream_t stream : {stream_, capture_stream_, communication_stream_})
      if (stream != nullptr) ignore(cudaStreamDestroy(stream));
  });
}

void DeviceState::require_healthy() const {
  if (life_.is_healthy()) [[likely]]
    return;
  fail_poisoned(options_.index, "has failed earlier and lost what was on it",
                "free this context and everything made in it, and make a new one");
}

void DeviceState::note(const Error& error) {
  const Domain domain = error.detail().domain;
  constexpr std::array kOnTheDevice{Domain::kCuda, Domain::kCudnn, Domain::kCublas, Domain::kNccl};
  if (std::ranges::find(kOnTheDevice, domain) == kOnTheDevice.end()) return;
  // A sticky error also hides behind the libraries' own codes, and behind their own copies of the
  // runtime with their own last errors: ask the device itself.
  const cudaError_t state = cudaStreamQuery(stream_);
  ignore(state);
  const bool reported =
      domain == Domain::kCuda && is_sticky(static_cast<cudaError_t>(error.detail().native_code));
  if (reported || is_sticky(state)) life_.poison();
}

void* DeviceState::allocate(size_t bytes) {
  void* data = nullptr;
  use([&] {
    const cudaError_t result = cudaMalloc(&data, bytes == 0 ? 1 : bytes);
    if (result == cudaErrorMemoryAllocation) {
      size_t free = 0, total = 0;
      ignore(result);
      ignore(cudaMemGetInfo(&free, &total));
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
    const cudaError_t cleared = cudaMemsetAsync(data, 0, bytes, stream_);
    if (cleared != cudaSuccess) ignore(cudaFree(data));
    check(cleared, "clearing device memory");
    in_use_ += bytes;
  });
  return data;
}

void DeviceState::release(void* data, size_t bytes) noexcept {
  release_with([&] {
    in_use_ -= bytes;
    ignore(cudaFree(data));  // waits for the device
  });
}

void* DeviceState::allocate_host(size_t bytes) {
  void* data = nullptr;
  use([&] {
    const cudaError_t result = cudaHostAlloc(&data, bytes == 0 ? 1 : bytes, cudaHostAllocPortable);
    if (result == cudaErrorMemoryAllocation) {
      ignore(result);
      ErrorDetail detail;
      detail.domain = Domain::kCuda;
      detail.native_code = result;
      detail.hint = "use a smaller batch, or let the process lock more memory (ulimit -l)";
      fail(Code::kOutOfHostMemory,
           cat("the host has no ", bytes, " bytes of pinned memory for CUDA device ",
               options_.index, "; use a smaller batch, or let the process lock more memory"),
           std::move(detail));
    }
    check(result, cat("allocating ", bytes, " bytes of pinned host memory"));
    std::memset(data, 0, bytes);
  });
  return data;
}

void DeviceState::release_host(void* data) noexcept {
  release_with([&] { ignore(cudaFreeHost(data)); });
}

void DeviceState::set_peers(Peers& peers) {
  const std::lock_guard lock(mutex_);
  require(peers_ == nullptr, Code::kInvalid, "CUDA device ", options_.index,
          " has a channel already in this context: free that first, and what trains on it");
  peers_ = &peers;
}

void DeviceState::forget(const Peers& peers) noexcept {
  const std::lock_guard lock(mutex_);
  if (peers_ == &peers) peers_ = nullptr;
}

// Asks again and again, as cudaStreamSynchronize does inside.
void DeviceState::wait_for_peers() {
  constexpr std::chrono::milliseconds kBetweenLooks(1);
  const auto start = std::chrono::steady_clock::now();
  auto next_look = start + kBetweenLooks;
  for (;;) {
    const cudaError_t state = cudaStreamQuery(stream_);
    if (state != cudaErrorNotReady) return check(state, "waiting for the device");
    ignore(state);
    if (const auto now = std::chrono::steady_clock::now(); now >= next_look) {
      peers_->look_after(now - start);
      next_look = now + kBetweenLooks;
    }
    std::this_thread::yield();
  }
}

void DeviceState::synchronize() {
  if (peers_ != nullptr) wait_for_peers();
  check(cudaStreamSynchronize(stream_), "waiting for the device");
  used_pieces_ = 0;
  if (peers_ != nullptr) peers_->require_arrival();
}

void DeviceState::write(void* device, const void* host, size_t bytes) {
  if (bytes == 0) return;
  if (bytes > kPieceBytes) {
    check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_),
          "copying to the device");
    return synchronize();
  }
  // A piece is free again once its copy is over, which only a wait tells.
  if (used_pieces_ == kPieces) synchronize();
  char* piece = pieces_ + kPieceBytes * used_pieces_++;
  std::memcpy(piece, host, bytes);
  check(cudaMemcpyAsync(device, piece, bytes, cudaMemcpyHostToDevice, stream_),
        "copying to the device");
}

void DeviceState::read(std::span<const HostRead> reads) {
  const auto copy = [&](void* to, const HostRead& read) {
    check(cudaMemcpyAsync(to, read.device, read.bytes, cudaMemcpyDeviceToHost, stream_),
          "copying from the device");
  };
  if (used_pieces_ + reads.size() > kPieces) synchronize();
  size_t piece = used_pieces_;
  for (const HostRead& read : reads) {
    if (read.bytes == 0) continue;
    // Into pinned memory, so that the host does not wait after each. If a later copy fails, the
    // pieces of those before stay used until somebody has waited.
    const bool small = read.bytes <= kPieceBytes && used_pieces_ < kPieces;
    copy(small ? pieces_ + kPieceBytes * used_pieces_++ : read.host, read);
  }
  synchronize();
  for (const HostRead& read : reads) {
    if (read.bytes == 0 || read.bytes > kPieceBytes || piece == kPieces) continue;
    std::memcpy(read.host, pieces_ + kPieceBytes * piece++, read.bytes);
  }
}

void copy_on_device(Stream stream, void* dst, const void* src, size_t bytes) {
  check(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, stream),
        "copying on the device");
}

}  // namespace assay::cuda
