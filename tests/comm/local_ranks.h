// Ranks of one process, for tests.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "sdk/comm/local.h"
#include "tests/comm/channel_cases.h"

namespace assay::test {

// Calls body on each rank's thread with its channel.
inline void on_ranks(int ranks, const std::function<void(std::shared_ptr<Channel>)>& body,
                     std::chrono::nanoseconds timeout = std::chrono::minutes(1)) {
  static int groups = 0;
  const std::string name = cat("group ", ++groups);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(make_local_channel(name, rank, ranks, timeout));
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace assay::test
