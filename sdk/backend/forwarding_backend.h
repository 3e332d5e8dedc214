// A backend that hands every call on to another one: for those that change a few of them.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "sdk/backend/backend.h"
#include "sdk/comm/channel.h"

namespace assay {

class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::shared_ptr<Backend> inner) : inner_(std::move(inner)) {}

  DeviceInfo info() const override { return inner_->info(); }
  Target target() const override { return inner_->target(); }
  NodePlan plan(const Graph& graph, NodeId node) override { return inner_->plan(graph, node); }
  std::unique_ptr<Memory> allocate(size_t bytes) override { return inner_->allocate(bytes); }
  std::unique_ptr<Memory> allocate_host(size_t bytes) override {
    return inner_->allocate_host(bytes);
  }
  std::unique_ptr<Executable> make_executable(std::vector<ScheduledLaunch> launches,
                                              size_t cancellable) override {
    return inner_->make_executable(std::move(launches), cancellable);
  }
  bool host_accessible() const override { return inner_->host_accessible(); }
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
  std::unique_ptr<Channel> make_channel(std::unique_ptr<Channel> hosts,
                                        std::chrono::nanoseconds timeout,
                                        std::shared_ptr<Backend> memory) override {
    return inner_->make_channel(std::move(hosts), timeout, std::move(memory));
  }

 protected:
  Backend& inner() const { return *inner_; }

 private:
  std::shared_ptr<Backend> inner_;
};

}  // namespace assay
