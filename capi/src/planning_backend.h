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

  DeviceInfo info() const override { return inner_->info(); }
  Target target() const override { return inner_->target(); }
  bool host_accessible() const override { return false; }
  NodePlan plan(const Graph& graph, NodeId node) override { return inner_->plan(graph, node); }
  std::unique_ptr<Memory> allocate(size_t bytes) override;
  std::unique_ptr<Memory> allocate_host(size_t bytes) override { return allocate(bytes); }
  std::unique_ptr<Executable> make_executable(std::vector<ScheduledLaunch>, size_t) override;
  void read(void*, const void*, size_t) override {}
  void write(void*, const void*, size_t) override {}
  void copy(void*, const void*, size_t) override {}
  void clear(void*, size_t) override {}

 private:
  std::shared_ptr<Backend> inner_;
};

}  // namespace assay::capi
