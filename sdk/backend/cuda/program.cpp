#include "sdk/backend/cuda/program.h"

#include "sdk/backend/cuda/planner.h"

namespace assay::cuda {
namespace {

void stop_if_cancelled(const std::atomic<bool>* cancel) {
  if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) [[unlikely]]
    fail(Code::kCancelled, "cancelled by the host");
}

class Program : public Executable {
 public:
  Program(std::shared_ptr<DeviceState> device, std::vector<Launch> launches, size_t cancellable)
      : device_(std::move(device)), launches_(std::move(launches)), cancellable_(cancellable) {}
  ~Program() override {
    if (graph_ != nullptr) device_->release_with([&] { ignore(cudaGraphExecDestroy(graph_)); });
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void run(const std::atomic<bool>* cancel) override {
    if (launches_.empty()) return;
    device_->use([&] {
      if (!warm_ || !device_->options().capture) {
        enqueue(cancel);
        warm_ = true;
        return;
      }
      stop_if_cancelled(cancel);
      if (graph_ == nullptr) capture();
      check(cudaGraphLaunch(graph_, device_->stream()), "launching a program");
    });
  }

  std::vector<NodeTime> run_timed() override {
    std::vector<NodeTime> times(launches_.size());
    device_->use([&] {
      const Events events(launches_.size() + 1);
      const StreamScope scope(device_->stream());
      for (size_t i = 0; i < launches_.size(); ++i) {
        events.record(i, device_->stream());
        launches_[i]();
      }
      events.record(launches_.size(), device_->stream());
      check(cudaStreamSynchronize(device_->stream()), "waiting for a program");
      for (size_t i = 0; i < launches_.size(); ++i) times[i].seconds = events.seconds(i);
    });
    return times;
  }

 private:
  class Events {
   public:
    explicit Events(size_t n) : events_(n) {
      for (cudaEvent_t& event : events_) check(cudaEventCreate(&event), "making an event");
    }
    ~Events() {
      for (cudaEvent_t event : events_) {
        if (event != nullptr) ignore(cudaEventDestroy(event));
      }
    }
    Events(const Events&) = delete;
    Events& operator=(const Events&) = delete;
    void record(size_t i, cudaStream_t stream) const {
      check(cudaEventRecord(events_[i], stream), "recording an event");
    }
    // Between event i and the next.
    double seconds(size_t i) const {
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, events_[i], events_[i + 1]), "reading an event");
      return static_cast<double>(milliseconds) * 1e-3;
    }

   private:
    std::vector<cudaEvent_t> events_;
  };

  void enqueue(const std::atomic<bool>* cancel) {
    const StreamScope scope(device_->stream());
    for (size_t i = 0; i < launches_.size(); ++i) {
      if (i < cancellable_) stop_if_cancelled(cancel);
      launches_[i]();
    }
  }

  // On a stream of its own: nothing but this program can come between.
  void capture() {
    const cudaStream_t stream = device_->capture_stream();
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing a program");
    cudaGraph_t captured = nullptr;
    try {
      const StreamScope scope(stream);
      for (const Launch& launch : launches_) launch();
    } catch (...) {
      ignore(cudaStreamEndCapture(stream, &captured));
      if (captured != nullptr) ignore(cudaGraphDestroy(captured));
      throw;
    }
    check(cudaStreamEndCapture(stream, &captured), "capturing a program");
    const cudaError_t result = cudaGraphInstantiate(&graph_, captured, 0);
    ignore(cudaGraphDestroy(captured));
    check(result, "making a CUDA graph");
    check(cudaGraphUpload(graph_, device_->stream()), "uploading a CUDA graph");
  }

  std::shared_ptr<DeviceState> device_;
  std::vector<Launch> launches_;
  size_t cancellable_;
  bool warm_ = false;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace

std::unique_ptr<Executable> make_program(std::shared_ptr<DeviceState> device,
                                         std::vector<Launch> launches, size_t cancellable) {
  return std::make_unique<Program>(std::move(device), std::move(launches), cancellable);
}

}  // namespace assay::cuda
