// A program as one CUDA graph: enqueued once to load its kernels, captured at the second run, then
// only launched. A second queue is a stream that forks off and joins again by events.
#include "sdk/backend/cuda/graph_executable.h"

#include <array>

#include "sdk/backend/cuda/planner.h"
#include "sdk/backend/cuda/timed_event.h"

namespace assay::cuda {
namespace {

void stop_if_cancelled(const std::atomic<bool>* cancel) {
  if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) [[unlikely]]
    fail(Code::kCancelled, "cancelled by the host");
}

// Events that say what one stream has done to the other; without a time.
class Marks {
 public:
  explicit Marks(size_t n) : events_(n, nullptr) {}
  // Makes event i, once.
  void make(size_t i) {
    if (events_[i] != nullptr) return;
    check(cudaEventCreateWithFlags(&events_[i], cudaEventDisableTiming), "making an event");
  }
  void free() noexcept {
    for (cudaEvent_t event : events_) {
      if (event != nullptr) ignore(cudaEventDestroy(event));
    }
  }
  // Event i is what the stream holds so far; nothing if nobody has made it.
  void record(size_t i, cudaStream_t stream) const {
    if (events_[i] != nullptr) check(cudaEventRecord(events_[i], stream), "recording an event");
  }
  void wait(size_t i, cudaStream_t stream) const {
    check(cudaStreamWaitEvent(stream, events_[i], 0), "ordering two streams");
  }

 private:
  std::vector<cudaEvent_t> events_;
};

class GraphExecutable : public Executable {
 public:
  GraphExecutable(std::shared_ptr<DeviceState> device, std::vector<ScheduledLaunch> launches,
                  size_t cancellable)
      : device_(std::move(device)),
        launches_(std::move(launches)),
        cancellable_(cancellable),
        marks_(launches_.size() + 2) {
    make_marks();
  }
  ~GraphExecutable() override {
    device_->release_with([&] {
      if (graph_ != nullptr) ignore(cudaGraphExecDestroy(graph_));
      marks_.free();
    });
  }
  GraphExecutable(const GraphExecutable&) = delete;
  GraphExecutable& operator=(const GraphExecutable&) = delete;

  void run(const std::atomic<bool>* cancel) override {
    if (launches_.empty()) return;
    enqueued_ = 0;
    device_->use([&] {
      if (has_second_) device_->require_peers();
      if (!warm_ || !device_->options().capture) {
        enqueue(device_->stream(), cancel);
        enqueued_ = 0;
        warm_ = true;
        return;
      }
      stop_if_cancelled(cancel);
      if (graph_ == nullptr) capture();
      check(cudaGraphLaunch(graph_, device_->stream()), "launching a program");
    });
  }

  bool in_doubt() const override { return enqueued_ > cancellable_; }

  std::vector<NodeTime> run_timed() override {
    std::vector<NodeTime> times(launches_.size());
    device_->use([&] {
      const std::vector<TimedEvent> events(launches_.size() + 1);
      StreamQueue queue(device_->stream(), device_->arrivals());
      for (size_t i = 0; i < launches_.size(); ++i) {
        events[i].record(device_->stream());
        launches_[i].launch(queue);
      }
      events.back().record(device_->stream());
      device_->synchronize();
      for (size_t i = 0; i < launches_.size(); ++i) {
        const auto milliseconds = static_cast<double>(events[i + 1].milliseconds_since(events[i]));
        times[i].seconds = milliseconds * 1e-3;
      }
    });
    return times;
  }

 private:
  // Marks of launches are numbered as these; behind them stand those of the beginning of a run and
  // of the end of its second queue.
  size_t begin_mark() const { return launches_.size(); }
  size_t end_mark() const { return launches_.size() + 1; }

  void make_marks() {
    for (const ScheduledLaunch& next : launches_) {
      has_second_ = has_second_ || next.queue != QueueId::kCompute;
    }
    if (!has_second_) return;
    try {
      device_->use([&] {
        for (const ScheduledLaunch& next : launches_) {
          if (next.after >= 0) marks_.make(static_cast<size_t>(next.after));
        }
        marks_.make(begin_mark());
        marks_.make(end_mark());
      });
    } catch (...) {
      device_->release_with([&] { marks_.free(); });
      throw;
    }
  }

  // Both queues between `stream` before and `stream` after, in a capture as well as outside.
  void enqueue(cudaStream_t stream, const std::atomic<bool>* cancel) {
    if (!has_second_) return enqueue_launches(stream, stream, cancel);
    const cudaStream_t second = device_->communication_stream();
    marks_.record(begin_mark(), stream);
    marks_.wait(begin_mark(), second);
    const auto join = [&] {
      marks_.record(end_mark(), second);
      marks_.wait(end_mark(), stream);
    };
    try {
      enqueue_launches(stream, second, cancel);
    } catch (...) {  // what was enqueued already must not run beside the next program
      try {
        join();
      } catch (const Error&) {  // the first error says more
      }
      throw;
    }
    join();
  }

  void enqueue_launches(cudaStream_t compute, cudaStream_t communication,
                        const std::atomic<bool>* cancel) {
    std::array<StreamQueue, kQueues> queues{StreamQueue(compute, device_->arrivals()),
                                            StreamQueue(communication, nullptr)};
    for (size_t i = 0; i < launches_.size(); ++i) {
      if (i < cancellable_) stop_if_cancelled(cancel);
      const ScheduledLaunch& next = launches_[i];
      StreamQueue& queue = queues[static_cast<size_t>(next.queue)];
      if (next.after >= 0) marks_.wait(static_cast<size_t>(next.after), queue.stream());
      enqueued_ = i + 1;  // wholly or in part
      next.launch(queue);
      marks_.record(i, queue.stream());
    }
  }

  // On a stream of its own: nothing but this program can come between.
  void capture() {
    const cudaStream_t stream = device_->capture_stream();
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing a program");
    cudaGraph_t captured = nullptr;
    try {
      enqueue(stream, nullptr);
    } catch (...) {
      enqueued_ = 0;
      ignore(cudaStreamEndCapture(stream, &captured));
      if (captured != nullptr) ignore(cudaGraphDestroy(captured));
      throw;
    }
    enqueued_ = 0;  // nothing is done before the graph is launched, and that as a whole
    check(cudaStreamEndCapture(stream, &captured), "capturing a program");
    const cudaError_t result = cudaGraphInstantiate(&graph_, captured, 0);
    ignore(cudaGraphDestroy(captured));
    check(result, "making a CUDA graph");
    check(cudaGraphUpload(graph_, device_->stream()), "uploading a CUDA graph");
  }

  std::shared_ptr<DeviceState> device_;
  std::vector<ScheduledLaunch> launches_;
  size_t cancellable_;
  Marks marks_;
  bool has_second_ = false;  // whether a launch is on the second queue
  bool warm_ = false;
  size_t enqueued_ = 0;  // launches of the present run, outside of captures
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace

std::unique_ptr<Executable> make_graph_executable(std::shared_ptr<DeviceState> device,
                                                  std::vector<ScheduledLaunch> launches,
                                                  size_t cancellable) {
  return std::make_unique<GraphExecutable>(std::move(device), std::move(launches), cancellable);
}

}  // namespace assay::cuda
