#include "tests/gpu/emulation/emulated_backend.h"

#include <algorithm>
#include <cstring>

#include "sdk/backend/cuda/planner.h"
#include "tests/gpu/emulation/cuda_emulation.h"
#include "tests/gpu/emulation/loop_libraries.h"

namespace assay::cuda {

void check_launch() {}
void copy_on_device(Stream, void* dst, const void* src, size_t bytes) {
  std::memcpy(dst, src, bytes);
}

}  // namespace assay::cuda

namespace assay::test {
namespace {

class EmulatedMemory : public Memory {
 public:
  explicit EmulatedMemory(size_t bytes) : bytes_(bytes), data_(std::max<size_t>(bytes, 1) + 256) {}
  void* data() const override {
    const auto address = reinterpret_cast<uintptr_t>(data_.data());
    return const_cast<std::byte*>(data_.data()) + (256 - address % 256) % 256;
  }
  size_t bytes() const override { return bytes_; }

 private:
  size_t bytes_;
  std::vector<std::byte> data_;
};

class LaunchList : public Executable {
 public:
  explicit LaunchList(std::vector<Launch> launches) : launches_(std::move(launches)) {}
  void run(const std::atomic<bool>* cancel) override {
    require(cancel == nullptr || !cancel->load(), Code::kCancelled, "cancelled by the host");
    for (const Launch& launch : launches_) launch();
  }
  std::vector<NodeTime> run_timed() override {
    run(nullptr);
    return std::vector<NodeTime>(launches_.size());
  }

 private:
  std::vector<Launch> launches_;
};

class EmulatedBackend : public Backend {
 public:
  DeviceInfo info() const override { return {.kind = "cuda", .name = "emulation", .threads = 1}; }
  Target target() const override { return target_; }
  NodePlan plan(const Graph& graph, NodeId node) override {
    const cuda::Planner planner(graph, node, target_, *libraries_);
    return std::visit([&](const auto& op) { return cuda::plan(op, planner); }, graph.node(node).op);
  }
  std::unique_ptr<Memory> allocate(size_t bytes) override {
    return std::make_unique<EmulatedMemory>(bytes);
  }
  std::unique_ptr<Memory> allocate_host(size_t bytes) override { return allocate(bytes); }
  std::unique_ptr<Executable> make_executable(std::vector<Launch> launches, size_t) override {
    return std::make_unique<LaunchList>(std::move(launches));
  }
  bool host_accessible() const override { return false; }
  void read(void* host, const void* device, size_t bytes) override {
    std::memcpy(host, device, bytes);
  }
  void write(void* device, const void* host, size_t bytes) override {
    std::memcpy(device, host, bytes);
  }

 private:
  Target target_ = Target::h200();
  std::unique_ptr<cuda::Libraries> libraries_ = make_loop_libraries();
};

}  // namespace

std::unique_ptr<Backend> make_emulated_backend() { return std::make_unique<EmulatedBackend>(); }

}  // namespace assay::test
