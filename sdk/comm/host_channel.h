// A channel between devices whose memory the host reads: everything is made of one exchange, which
// the way the ranks are connected decides.
#pragma once

#include <chrono>
#include <span>

#include "sdk/comm/channel.h"

namespace assay {

class HostChannel : public Channel {
 public:
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Launch all_reduce(float* data, int64_t n, DType wire) override;
  Launch broadcast(void* data, size_t bytes) override;
  std::vector<std::string> gather(std::string_view mine) override;

 protected:
  HostChannel(int rank, int size, std::chrono::nanoseconds timeout)
      : rank_(rank), size_(size), timeout_(timeout) {}

  using Sent = std::span<const std::byte>;
  using Received = std::span<std::byte>;
  // By rank: what this one sends, and the room for what it gets. The place of its own rank is
  // empty; what a rank sends is as long as the room for it there. Returns when both are done, so
  // that the memory is free.
  virtual void exchange(std::span<const Sent> to, std::span<const Received> from) = 0;
  std::chrono::nanoseconds timeout() const { return timeout_; }

 private:
  template <class Number>
  class Sum;
  class RoundedSum;
  const int rank_, size_;
  const std::chrono::nanoseconds timeout_;
  std::vector<std::byte> received_;  // of a sum; as large as the largest that was planned
};

// "rank 2", "ranks 0, 3".
std::string ranks_text(std::span<const int> ranks);

}  // namespace assay
