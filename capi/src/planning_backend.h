// A backend for asking what a program would take: it plans on the real one, but its memory is
// address space without pages behind it, and its programs do not run.
#pragma once

#include <memory>
#include <vector>

#include "sdk/backend/backend.h"

namespace assay::capi {

class PlanningBackend : public Backend {
 public:
  explicit PlanningBackend(std::shared_ptr<Backend> inner) : inner_(std::move(inner)) {}

  struct PlannedNode {
    NodeId node;
    std::string kernel;
    size_t scratch_bytes = 0;
    double flops = 0, bytes = 0;
  };
  // One row per node planned, in the order of planning, which is that of the compiled graph.
  std::vector<PlannedNode> take_planned() { return std::move(planned_); }

  DeviceInfo info() const override { return inner_->info(); }
  Target target() const override { return inner_->target(); }
  bool host_accessible() const override { return false; }
  NodePlan plan(const Graph& graph, NodeId node) override;
  std::unique_ptr<Memory> allocate(size_t bytes) override;
  std::unique_ptr<Memory> allocate_host(size_t bytes) override { return allocate(bytes); }
  std::unique_ptr<Executable> make_executable(std::vector<ScheduledLaunch>, size_t) override;
  void read(void*, const void*, size_t) override {}
  void write(void*, const void*, size_t) override {}

 private:
  std::shared_ptr<Backend> inner_;
  std::vector<PlannedNode> planned_;
};

}  // namespace assay::capi
