// The CUDA backend: finds devices and says why one cannot be used; plans, memory and transfers go
// through DeviceState, which serialises them.
#include "sdk/backend/cuda/backend.h"

#include "sdk/backend/cuda/device.h"
#include "sdk/backend/cuda/feed.h"
#include "sdk/backend/cuda/graph_executable.h"
#include "sdk/backend/cuda/nccl_channel.h"
#include "sdk/backend/cuda/planner.h"
#include "sdk/backend/cuda/vendor_libraries.h"

namespace assay::cuda {
namespace {

// The first GPUs with units for bf16 and TF32.
constexpr int kLeastCapability = 80;

std::string version_text(int version) { return cat(version / 1000, ".", version % 1000 / 10); }

// The driver's version, 0 if there is none.
int driver_version() {
  int version = 0;
  return cudaDriverGetVersion(&version) == cudaSuccess ? version : 0;
}

int runtime_version() {
  int version = 0;
  ignore(cudaRuntimeGetVersion(&version));
  return version;
}

std::string versions_text() {
  const size_t cudnn = cudnnGetVersion();
  return cat("driver for CUDA ", version_text(driver_version()), ", CUDA ",
             version_text(runtime_version()), ", cuDNN ", cudnn / 10000, ".", cudnn / 100 % 100,
             ".", cudnn % 100, ", cuBLASLt ", cublasLtGetVersion());
}

std::string why_no_devices(cudaError_t result) {
  const int driver = driver_version();
  if (driver == 0) {
    return "there is no NVIDIA driver on this machine (libcuda.so.1 cannot be loaded)";
  }
  if (result == cudaErrorInsufficientDriver) {
    return cat("the NVIDIA driver is too old: it supports CUDA ", version_text(driver),
               ", this build needs ", version_text(runtime_version()));
  }
  if (result == cudaErrorNoDevice || result == cudaSuccess) {
    return "the NVIDIA driver finds no CUDA device (CUDA_VISIBLE_DEVICES may hide it)";
  }
  return cat("the NVIDIA driver does not answer: ", std::string_view(cudaGetErrorString(result)),
             " (", static_cast<int>(result), ")");
}

// A cuDNN of another minor version may lack engines, one of another major version functions.
std::string why_not_cudnn() {
  const size_t found = cudnnGetVersion();
  if (found / 10000 == CUDNN_MAJOR) return "";
  return cat("cuDNN ", found / 10000, ".", found / 100 % 100, " was loaded, this build needs ",
             CUDNN_MAJOR, ".x");
}

Device describe(int index) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), cat("asking for CUDA device ", index));
  Device device;
  device.info.kind = "cuda";
  device.info.index = index;
  device.info.name = properties.name;
  device.info.driver = versions_text();
  device.info.memory_total = properties.totalGlobalMem;
  device.target.kind = Target::Kind::kCuda;
  device.target.name = properties.name;
  device.target.compute_capability = 10 * properties.major + properties.minor;
  device.target.has_tf32 = device.target.has_f16 = true;
  device.unavailable_reason = why_not_cudnn();
  if (device.target.compute_capability < kLeastCapability) {
    device.unavailable_reason =
        cat(std::string_view(properties.name), " has compute capability ", properties.major, ".",
            properties.minor, ", at least 8.0 is needed");
  }
  return device;
}

enum class MemoryKind { kDevice, kPinned };  // pinned: of the host, for transfers

class OwnedMemory : public Memory {
 public:
  OwnedMemory(std::shared_ptr<DeviceState> device, MemoryKind kind, size_t bytes)
      : device_(std::move(device)),
        kind_(kind),
        bytes_(bytes),
        data_(kind == MemoryKind::kDevice ? device_->allocate(bytes)
                                          : device_->allocate_host(bytes)) {}
  ~OwnedMemory() override {
    if (kind_ == MemoryKind::kDevice) {
      device_->release(data_, bytes_);
    } else {
      device_->release_host(data_);
    }
  }
  OwnedMemory(const OwnedMemory&) = delete;
  OwnedMemory& operator=(const OwnedMemory&) = delete;
  void* data() const override { return data_; }
  size_t bytes() const override { return bytes_; }

 private:
  std::shared_ptr<DeviceState> device_;
  MemoryKind kind_;
  size_t bytes_;
  void* data_;
};

class CudaBackend : public Backend {
 public:
  explicit CudaBackend(const Options& options)
      : device_(std::make_shared<DeviceState>(options)), described_(describe(options.index)) {
    described_.target.deterministic = options.deterministic;
    device_->use([&] {
      libraries_ =
          make_vendor_libraries(cat(described_.info.name, ", ", described_.info.driver), *device_);
    });
  }
  ~CudaBackend() override {
    device_->release_with([&] { libraries_.reset(); });
  }
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  DeviceInfo info() const override {
    DeviceInfo info = described_.info;
    device_->use([&] {
      size_t free = 0, total = 0;
      check(cudaMemGetInfo(&free, &total), "asking for free device memory");
      info.memory_free = free;
    });
    return info;
  }
  Target target() const override { return described_.target; }

  NodePlan plan(const Graph& graph, NodeId node) override {
    NodePlan plan;
    const Planner planner(graph, node, described_.target, *libraries_);
    device_->use([&] {
      plan =
          std::visit([&](const auto& op) { return cuda::plan(op, planner); }, graph.node(node).op);
    });
    return plan;
  }

  std::unique_ptr<Memory> allocate(size_t bytes) override {
    return std::make_unique<OwnedMemory>(device_, MemoryKind::kDevice, bytes);
  }
  std::unique_ptr<Memory> allocate_host(size_t bytes) override {
    return std::make_unique<OwnedMemory>(device_, MemoryKind::kPinned, bytes);
  }
  std::unique_ptr<Executable> make_executable(std::vector<ScheduledLaunch> launches,
                                              size_t cancellable) override {
    return make_graph_executable(device_, std::move(launches), cancellable);
  }
  bool host_accessible() const override { return false; }
  void read(void* host, const void* device, size_t bytes) override {
    const HostRead one{host, device, bytes};
    read_all({&one, 1});
  }
  void read_all(std::span<const HostRead> reads) override {
    device_->use([&] { device_->read(reads); });
  }
  void write(void* device, const void* host, size_t bytes) override {
    device_->use([&] { device_->write(device, host, bytes); });
  }
  void copy(void* to, const void* from, size_t bytes) override {
    device_->use([&] { copy_on_device(device_->stream(), to, from, bytes); });
  }
  void clear(void* device, size_t bytes) override {
    device_->use([&] {
      check(cudaMemsetAsync(device, 0, bytes, device_->stream()), "clearing device memory");
    });
  }
  void wait() override {
    device_->use([&] { device_->synchronize(); });
  }
  std::unique_ptr<Feed> make_feed(const FeedSpec& spec, Backend& memory) override {
    return make_device_feed(device_, spec, memory);
  }
  std::unique_ptr<Channel> make_channel(std::unique_ptr<Channel> hosts,
                                        std::chrono::nanoseconds timeout,
                                        std::shared_ptr<Backend> memory) override {
    return make_nccl_channel(device_, std::move(hosts), timeout, std::move(memory));
  }

 private:
  std::shared_ptr<DeviceState> device_;
  Device described_;
  std::unique_ptr<Libraries> libraries_;
};

}  // namespace

std::vector<Device> find_devices(std::string& reason) {
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  ignore(result);
  if (result != cudaSuccess || count == 0) {
    reason = why_no_devices(result);
    return {};
  }
  std::vector<Device> devices(static_cast<size_t>(count));
  for (int index = 0; index < count; ++index) {
    Device& device = devices[static_cast<size_t>(index)];
    try {
      device = describe(index);
    } catch (const Error& error) {  // as one that has fallen off the bus
      device.info.kind = "cuda";
      device.info.index = index;
      device.unavailable_reason = error.what();
    }
  }
  return devices;
}

// Asks nothing of a device that the process has no context on: that would make one.
uint64_t memory_free(int index) {
  if (!has_context(index)) return 0;
  size_t free = 0, total = 0;
  try {
    const DeviceScope scope(index);
    check(cudaMemGetInfo(&free, &total), "asking for free device memory");
  } catch (const Error&) {  // it has failed: whoever computes on it is told
    return 0;
  }
  return free;
}

std::unique_ptr<Backend> make_device_backend(const Options& options) {
  return std::make_unique<CudaBackend>(options);
}

}  // namespace assay::cuda
