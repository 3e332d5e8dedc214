#include "sdk/backend/cuda/plan_only.h"

#include <cstring>

#include "sdk/backend/cuda/planner.h"

namespace assay::cuda {
namespace {

// Addresses that only count: on 256-byte boundaries, one block after the other.
class AddressOnly : public Memory {
 public:
  AddressOnly(size_t bytes, uintptr_t address) : bytes_(bytes), address_(address) {}
  void* data() const override { return reinterpret_cast<void*>(address_); }
  size_t bytes() const override { return bytes_; }

 private:
  size_t bytes_;
  uintptr_t address_;
};

class NothingToRun : public Executable {
 public:
  void run(const std::atomic<bool>*) override {}
  std::vector<NodeTime> run_timed() override { return {}; }
};

class PlanOnlyBackend : public Backend {
 public:
  explicit PlanOnlyBackend(const Target& target) : target_(target) {}

  DeviceInfo info() const override {
    DeviceInfo info;
    info.kind = "cuda";
    info.name = target_.name;
    info.driver = "plans only";
    return info;
  }
  Target target() const override { return target_; }
  NodePlan plan(const Graph& graph, NodeId node) override {
    const Planner planner(graph, node, target_, *libraries_);
    return std::visit([&](const auto& op) { return cuda::plan(op, planner); }, graph.node(node).op);
  }
  std::unique_ptr<Memory> allocate(size_t bytes) override {
    constexpr uintptr_t kFirst = 1 << 20;
    const uintptr_t offset = used_.fetch_add((bytes + 255) / 256 * 256);
    return std::make_unique<AddressOnly>(bytes, kFirst + offset);
  }
  std::unique_ptr<Memory> allocate_host(size_t bytes) override { return allocate(bytes); }
  std::unique_ptr<Executable> make_executable(std::vector<ScheduledLaunch>, size_t) override {
    return std::make_unique<NothingToRun>();
  }
  bool host_accessible() const override { return false; }
  void read(void* host, const void*, size_t bytes) override { std::memset(host, 0, bytes); }
  void write(void*, const void*, size_t) override {}
  void copy(void*, const void*, size_t) override {}
  void clear(void*, size_t) override {}

 private:
  Target target_;
  std::unique_ptr<Libraries> libraries_ = make_planning_libraries();
  std::atomic<uintptr_t> used_{0};
};

}  // namespace

std::unique_ptr<Backend> make_plan_only_backend(const Target& target) {
  return std::make_unique<PlanOnlyBackend>(target);
}

}  // namespace assay::cuda
