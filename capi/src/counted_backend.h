// A backend that counts the memory it hands out and keeps to a limit.
#pragma once

#include <atomic>
#include <memory>

#include "sdk/backend/forwarding_backend.h"

namespace assay::capi {

struct MemoryCount {
  std::atomic<uint64_t> in_use{0}, peak{0}, blocks{0};
  uint64_t limit = 0;  // 0: none
};

class CountedBackend : public ForwardingBackend {
 public:
  // `over_limit` is the code of the error when a block would go over the limit.
  CountedBackend(std::shared_ptr<Backend> inner, std::shared_ptr<MemoryCount> count,
                 Code over_limit)
      : ForwardingBackend(std::move(inner)), count_(std::move(count)), over_limit_(over_limit) {}

  std::unique_ptr<Memory> allocate(size_t bytes) override;
  std::unique_ptr<Memory> allocate_host(size_t bytes) override;

 private:
  std::shared_ptr<MemoryCount> count_;  // blocks may outlive the backend's owner
  Code over_limit_;
};

}  // namespace assay::capi
