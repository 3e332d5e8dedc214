// Work on many items by several threads, with results taken in order.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace assay::data {

// Calls produce(index, result) for each index in [0, count) on `threads` (at least one) threads,
// and consume(index, result) on this one, in order. Some results per thread wait at most; their
// memory is used again. The first failure in that order ends the work and is raised here.
template <class Result, class Produce, class Consume>
void ordered_map(int64_t count, int threads, const Produce& produce, const Consume& consume) {
  struct Pending {
    Result result;
    std::exception_ptr error;
    int64_t ready = -1;  // the index whose result lies here
  };
  constexpr int kPendingPerThread = 4;
  threads = std::max(threads, 1);
  std::vector<Pending> pending(static_cast<size_t>(threads * kPendingPerThread));
  const auto window = static_cast<int64_t>(pending.size());
  std::mutex mutex;
  std::condition_variable changed;
  int64_t claimed = 0, consumed = 0;
  bool stop = false;

  const auto work = [&] {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return stop || claimed == count || claimed < consumed + window; });
      if (stop || claimed == count) return;
      const int64_t index = claimed++;
      Pending& mine = pending[static_cast<size_t>(index % window)];
      lock.unlock();
      mine.error = nullptr;
      try {
        produce(index, mine.result);
      } catch (...) {
        mine.error = std::current_exception();
      }
      lock.lock();
      mine.ready = index;
      changed.notify_all();
    }
  };

  struct Workers {
    ~Workers() {
      {
        const std::lock_guard lock(mutex);
        stop = true;
      }
      changed.notify_all();
      for (std::thread& thread : threads) thread.join();
    }
    std::mutex& mutex;
    std::condition_variable& changed;
    bool& stop;
    std::vector<std::thread> threads = {};
  } workers{mutex, changed, stop};
  for (int i = 0; i < threads; ++i) workers.threads.emplace_back(work);

  for (int64_t index = 0; index < count; ++index) {
    Pending& mine = pending[static_cast<size_t>(index % window)];
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return mine.ready == index; });
    }
    if (mine.error) std::rethrow_exception(mine.error);
    consume(index, mine.result);
    const std::lock_guard lock(mutex);
    consumed = index + 1;
    changed.notify_all();
  }
}

}  // namespace assay::data
