// Runs bound launches: in order on the caller's thread, or on two threads that wait for each other
// where the schedule says so.
#include "sdk/backend/cpu/program.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <semaphore>
#include <thread>

#include "sdk/backend/cpu/thread_count.h"

namespace assay::cpu {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void stop_if_cancelled(const std::atomic<bool>* cancel) {
  if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) [[unlikely]]
    fail(Code::kCancelled, "cancelled by the host");
}

class OneQueue : public Executable {
 public:
  OneQueue(std::vector<ScheduledLaunch> launches, size_t cancellable, int threads)
      : launches_(std::move(launches)), cancellable_(cancellable), threads_(threads) {}

  void run(const std::atomic<bool>* cancel) override {
    const ThreadCount scope(threads_);
    Queue queue;
    for (size_t i = 0; i < launches_.size(); ++i) {
      if (i < cancellable_) stop_if_cancelled(cancel);
      launches_[i].launch(queue);
    }
  }

  std::vector<NodeTime> run_timed() override {
    const ThreadCount scope(threads_);
    Queue queue;
    std::vector<NodeTime> times;
    times.reserve(launches_.size());
    for (const ScheduledLaunch& next : launches_) {
      const auto start = Clock::now();
      next.launch(queue);
      times.push_back({seconds_since(start)});
    }
    return times;
  }

 protected:
  std::vector<ScheduledLaunch> launches_;
  size_t cancellable_;
  int threads_;
};

// The second queue has a thread that lives as long as the program. What one queue fails with ends
// the run of both.
class TwoQueues : public OneQueue {
 public:
  TwoQueues(std::vector<ScheduledLaunch> launches, size_t cancellable, int threads)
      : OneQueue(std::move(launches), cancellable, threads), beside_([this] { serve(); }) {}
  ~TwoQueues() override {
    ends_ = true;
    begin_.release();
    beside_.join();
  }
  TwoQueues(const TwoQueues&) = delete;
  TwoQueues& operator=(const TwoQueues&) = delete;

  void run(const std::atomic<bool>* cancel) override {
    for (std::atomic<size_t>& done : done_) done = 0;
    errors_.fill(nullptr);
    failed_ = false;
    times_ = {};
    cancel_ = cancel;
    begin_.release();
    run_queue(QueueId::kCompute);
    over_.acquire();
    for (const std::exception_ptr& error : errors_) {
      if (error != nullptr) std::rethrow_exception(error);
    }
  }

  // Waking up takes a moment that no launch does.
  QueueTimes queue_times() const override {
    return {times_.communication, std::min(times_.waited, times_.communication)};
  }

 private:
  void serve() {
    for (begin_.acquire(); !ends_; begin_.acquire()) {
      run_queue(QueueId::kCommunication);
      over_.release();
    }
  }

  void run_queue(QueueId queue) {
    std::atomic<size_t>& done = done_[static_cast<size_t>(queue)];
    try {
      const ThreadCount scope(threads_);
      Queue here;
      for (size_t i = 0; i < launches_.size() && !failed_; ++i) {
        if (launches_[i].queue != queue) continue;
        if (i < cancellable_) stop_if_cancelled(cancel_);
        if (!wait_for(launches_[i].after)) break;
        run_launch(launches_[i], here);
        publish(done, i + 1);
      }
    } catch (...) {
      errors_[static_cast<size_t>(queue)] = std::current_exception();
      failed_ = true;
    }
    publish(done, launches_.size());
  }

  void run_launch(const ScheduledLaunch& next, Queue& here) {
    if (next.queue == QueueId::kCompute) return next.launch(here);
    const auto start = Clock::now();
    next.launch(here);
    times_.communication += seconds_since(start);
  }

  static void publish(std::atomic<size_t>& done, size_t launches) {
    done.store(launches, std::memory_order_release);
    done.notify_one();
  }

  // False if the other queue has failed.
  bool wait_for(int launch) {
    if (launch < 0) return true;
    const auto index = static_cast<size_t>(launch);
    const QueueId other = launches_[index].queue;
    const std::atomic<size_t>& done = done_[static_cast<size_t>(other)];
    if (done > index) return !failed_;
    const auto start = Clock::now();
    // A queue that fails or ends early publishes all its launches: nobody waits for ever.
    for (size_t seen = done; seen <= index; seen = done) done.wait(seen);
    if (other == QueueId::kCommunication) times_.waited += seconds_since(start);
    return !failed_;
  }

  const std::atomic<bool>* cancel_ = nullptr;
  std::array<std::atomic<size_t>, kQueues> done_{};  // launches up to this one are over
  std::array<std::exception_ptr, kQueues> errors_;
  std::atomic<bool> failed_{false}, ends_{false};
  QueueTimes times_;  // each number is one thread's
  std::binary_semaphore begin_{0}, over_{0};
  std::thread beside_;  // last: it uses all the others
};

}  // namespace

std::unique_ptr<Executable> make_program(std::vector<ScheduledLaunch> launches, size_t cancellable,
                                         int threads) {
  const bool beside = std::any_of(launches.begin(), launches.end(), [](const ScheduledLaunch& l) {
    return l.queue != QueueId::kCompute;
  });
  if (beside) return std::make_unique<TwoQueues>(std::move(launches), cancellable, threads);
  return std::make_unique<OneQueue>(std::move(launches), cancellable, threads);
}

}  // namespace assay::cpu
