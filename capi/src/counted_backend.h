// A backend that counts the memory it hands out and keeps to a limit.
#pragma once

#include <atomic>
#include <memory>

#include "sdk/backend/backend.h"

namespace assay::capi {

struct MemoryCount {
  std::atomic<uint64_t> in_use{0}, peak{0}, blocks{0};
  uint64_t limit = 0;  // 0: none
};

class CountedBackend : public Backend {
 public:
  // `over_limit` is the code of the error when a block would go over the limit.
  CountedBackend(std::unique_ptr<Backend> inner, std::shared_ptr<MemoryCount> count,
                 Code over_limit)
      : inner_(std::move(inner)), count_(std::move(count)), over_limit_(over_limit) {}

  DeviceInfo info() const override { return inner_->info(); }
  Target target() const override { return inner_->target(); }
  bool host_accessible() const override { return inner_->host_accessible(); }
  NodePlan plan(const Graph& graph, NodeId node) override { return inner_->plan(graph, node); }
  std::unique_ptr<Memory> allocate(size_t bytes) override;
  std::unique_ptr<Memory> allocate_host(size_t bytes) override;
  std::unique_ptr<Executable> make_executable(std::vector<ScheduledLaunch> launches,
                                              size_t cancellable) override {
    return inner_->make_executable(std::move(launches), cancellable);
  }
  void read(void* host, const void* device, size_t bytes) override {
    inner_->read(host, device, bytes);
  }
  void write(void* device, const void* host, size_t bytes) override {
    inner_->write(device, host, bytes);
  }
  void copy(void* to, const void* from, size_t bytes) override { inner_->copy(to, from, bytes); }
  void clear(void* device, size_t bytes) override { inner_->clear(device, bytes); }
  void read_all(std::span<const HostRead> reads) override { inner_->read_all(reads); }
  void wait() override { inner_->wait(); }
  std::unique_ptr<Feed> make_feed(const FeedSpec& spec, Backend& memory) override {
    return inner_->make_feed(spec, memory);
  }

 private:
  std::unique_ptr<Backend> inner_;
  std::shared_ptr<MemoryCount> count_;  // blocks may outlive the backend's owner
  Code over_limit_;
};

}  // namespace assay::capi
