// A backend of which every part that touches a device is a stand-in, so that only plans come of it.
#include "sdk/backend/cuda/plan_only.h"

#include <cstring>

#include "sdk/backend/cuda/check.h"
#include "sdk/backend/cuda/planner.h"
#include "sdk/backend/cuda/vendor_libraries.h"
#include "sdk/backend/unbacked.h"
#include "sdk/comm/channel.h"

namespace assay::cuda {
namespace {

class PlanOnlyBackend : public Backend {
 public:
  explicit PlanOnlyBackend(const Target& target)
      : target_(target), libraries_(make_planning_libraries(target)) {}

  DeviceInfo info() const override {
    const size_t cudnn = cudnnGetVersion();
    DeviceInfo info;
    info.kind = "cuda";
    info.name = target_.name;
    info.driver =
        cat("plans only, cuDNN ", cudnn / 10000, ".", cudnn / 100 % 100, ".", cudnn % 100);
    return info;
  }
  Target target() const override { return target_; }
  NodePlan plan(const Graph& graph, NodeId node) override {
    const Planner planner(graph, node, target_, *libraries_);
    return std::visit([&](const auto& op) { return cuda::plan(op, planner); }, graph.node(node).op);
  }
  std::unique_ptr<Memory> allocate(size_t bytes) override { return memory_.allocate(bytes); }
  std::unique_ptr<Memory> allocate_host(size_t bytes) override { return allocate(bytes); }
  std::unique_ptr<Executable> make_executable(std::vector<ScheduledLaunch>, size_t) override {
    return std::make_unique<NothingToRun>();
  }
  bool host_accessible() const override { return false; }
  void read(void* host, const void*, size_t bytes) override { std::memset(host, 0, bytes); }
  void write(void*, const void*, size_t) override {}
  void copy(void*, const void*, size_t) override {}
  void clear(void*, size_t) override {}
  std::unique_ptr<Channel> make_channel(std::unique_ptr<Channel>, std::chrono::nanoseconds,
                                        std::shared_ptr<Backend>) override {
    fail(Code::kUnsupported, "there is no channel between devices that are not there");
  }

 private:
  Target target_;
  std::unique_ptr<Libraries> libraries_;
  UnbackedMemory memory_;
};

}  // namespace

std::unique_ptr<Backend> make_plan_only_backend(const Target& target) {
  return std::make_unique<PlanOnlyBackend>(target);
}

}  // namespace assay::cuda
