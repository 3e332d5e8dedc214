// A backend for asking what a program would take: it plans on the real one, but its memory has
// nothing behind it, and its programs do not run.
#pragma once

#include <memory>
#include <vector>

#include "sdk/backend/forwarding_backend.h"
#include "sdk/backend/unbacked.h"

namespace assay::capi {

class PlanningBackend : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  bool host_accessible() const override { return false; }
  std::unique_ptr<Memory> allocate(size_t bytes) override { return memory_.allocate(bytes); }
  std::unique_ptr<Memory> allocate_host(size_t bytes) override { return allocate(bytes); }
  std::unique_ptr<Executable> make_executable(std::vector<ScheduledLaunch>, size_t) override {
    return std::make_unique<NothingToRun>();
  }
  void read(void*, const void*, size_t) override {}
  void read_all(std::span<const HostRead>) override {}
  void write(void*, const void*, size_t) override {}
  void copy(void*, const void*, size_t) override {}
  void clear(void*, size_t) override {}
  std::unique_ptr<Feed> make_feed(const FeedSpec& spec, Backend& memory) override {
    // Not the device's. NOLINTNEXTLINE(bugprone-parent-virtual-call)
    return Backend::make_feed(spec, memory);
  }

 private:
  UnbackedMemory memory_;
};

}  // namespace assay::capi
