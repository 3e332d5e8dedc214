#include "sdk/backend/feed.h"

#include <array>
#include <cstring>

#include "sdk/backend/backend.h"
#include "sdk/base/error.h"

namespace assay {
namespace {

// Keeps batches in host memory.
class HostFeed : public Feed {
 public:
  HostFeed(Backend& memory, const FeedSpec& spec) : memory_(memory), bytes_(spec.array_bytes) {
    for (auto& batch : batches_) {
      for (const size_t bytes : bytes_) batch.push_back(memory.allocate_host(bytes));
    }
  }

  void stage(std::span<const void* const> arrays) override {
    require(staged_ < kMostStaged, Code::kInvalid, "two batches wait already");
    auto& batch = batches_[next_++ % kMostStaged];
    for (size_t i = 0; i < batch.size(); ++i) {
      if (bytes_[i] > 0) std::memcpy(batch[i]->data(), arrays[i], bytes_[i]);
    }
    ++staged_;
  }
  size_t staged() const override { return staged_; }

  void deliver(std::span<void* const> targets) override {
    require(staged_ > 0, Code::kInvalid, "no batch waits");
    const auto& batch = batches_[(next_ - staged_) % kMostStaged];
    for (size_t i = 0; i < batch.size(); ++i)
      memory_.write(targets[i], batch[i]->data(), bytes_[i]);
    --staged_;
  }
  void clear() override { staged_ = 0; }

 private:
  Backend& memory_;
  std::vector<size_t> bytes_;
  std::array<std::vector<std::unique_ptr<Memory>>, kMostStaged> batches_;
  uint64_t next_ = 0;
  size_t staged_ = 0;
};

}  // namespace

std::unique_ptr<Feed> Backend::make_feed(const FeedSpec& spec, Backend& memory) {
  return std::make_unique<HostFeed>(memory, spec);
}

}  // namespace assay
