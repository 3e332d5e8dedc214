// What a device must offer: memory, a plan for each node, and a way to run bound plans. Virtual,
// but called per program, never per element.
//
// Life of a node: `plan` sees types only. It chooses a kernel, does everything slow (library
// descriptors, timed search), and reports scratch memory. What holds on every backend, as costs,
// stands at the op (NodeFacts). When memory has been planned, the plan is bound to addresses and
// gives a Launch; running a program calls its launches in order and decides nothing any more.
//
// Backends are thread-safe. A Launch may be called by one thread at a time; launches of different
// programs may run at once.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sdk/backend/feed.h"
#include "sdk/graph/node_view.h"
#include "sdk/graph/queue.h"
#include "sdk/graph/target.h"

namespace assay {

class Channel;

// Addresses of one node's tensors, fixed for the life of the program.
struct Binding {
  std::span<void* const> inputs;
  std::span<void* const> outputs;
  // NodePlan::scratch_bytes bytes, 64-byte aligned, contents undefined at each launch.
  void* scratch = nullptr;
  // NodePlan::Prepare::bytes that outlive the runs, or null if nothing was prepared.
  void* prepared = nullptr;
  // To the other devices, where the program has one.
  Channel* channel = nullptr;

  template <class T>
  const T* x(int i) const {
    return static_cast<const T*>(inputs[i]);
  }
  template <class T>
  T* y(int i = 0) const {
    return static_cast<T*>(outputs[i]);
  }
};

// A launch's place in a program.
struct ScheduledLaunch {
  ScheduledLaunch(Launch what, QueueId where = QueueId::kCompute, int behind = -1)
      : launch(std::move(what)), queue(where), after(behind) {}

  Launch launch;
  QueueId queue;
  // The last launch of the other queue, by its index in the program, that must be over before this
  // one begins; it stands earlier in the program. -1: none.
  int after;
};

struct NodePlan {
  // The implementation chosen, for dumps and profiles: "dnnl:brgconv:avx512", "own:two_pass".
  std::string kernel;
  size_t scratch_bytes = 0;  // lives for this node only
  // What this kernel allows beyond NodeFacts::in_place.
  std::vector<InPlace> in_place;
  std::function<Launch(const Binding&)> bind;

  // Work on an input that never changes (a predictor's weights) can be done once. If `bytes` is not
  // 0 and the runtime knows the input to be constant, it may give that much memory as
  // Binding::prepared, and must then run the launch of `Prepare::bind` once before the first run.
  // Plans that make the same of the same input name the same `form` and may share that memory.
  struct Prepare {
    int input = -1;
    size_t bytes = 0;
    size_t scratch_bytes = 0;  // takes the place of NodePlan::scratch_bytes, here and in later runs
    std::string form;          // "" is not shared
    std::function<Launch(const Binding&)> bind;
  };
  Prepare prepare;
};

// What no device does anything for: memory that is written from outside, views, and Concat, in
// whose result its parts stand already.
#define ASSAY_NOTHING_TO_DO_OPS(X) \
  X(Input) X(Parameter) X(StepScalar) X(Reshape) X(Slice) X(SliceGrad) X(Transpose) X(Concat)
inline NodePlan nothing_to_do() {
  NodePlan plan;
  plan.kernel = "none";
  plan.bind = [](const Binding&) -> Launch { return nullptr; };
  return plan;
}

// A block of device memory, freed with the object. Aligned to at least 64 bytes; contents start as
// zero.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual void* data() const = 0;
  virtual size_t bytes() const = 0;
};

struct NodeTime {
  double seconds = 0;  // of one launch
};

// Of one run.
struct QueueTimes {
  double communication = 0;  // seconds that the launches of the second queue took
  double waited = 0;         // seconds of these in which the first one stood still for them
};

// Bound launches in execution order. Those of different queues may overlap where `after` lets them;
// all of them come after the run before and before the next.
class Executable {
 public:
  virtual ~Executable() = default;
  // Runs all launches once. With `cancel`, the flag is looked at before each of the first
  // `cancellable` launches (those that change nothing persistent) and kCancelled is raised if it is
  // set.
  virtual void run(const std::atomic<bool>* cancel) = 0;
  // After a run that failed: whether launches behind the cancellable ones may have been done.
  virtual bool in_doubt() const { return false; }
  // Runs all launches once, one after the other, with a timer around each.
  virtual std::vector<NodeTime> run_timed() = 0;
  // Of the last run; zeros where nothing is measured.
  virtual QueueTimes queue_times() const { return {}; }
};

struct DeviceInfo {
  std::string kind;  // "cpu" or "cuda"
  int index = 0;
  std::string name;           // "AMD EPYC", "NVIDIA H200"
  std::string driver;         // library and driver versions in words
  uint64_t memory_total = 0;  // bytes
  uint64_t memory_free = 0;
  int threads = 0;  // CPU: threads used per launch
};

// One tensor to be copied to host memory.
struct HostRead {
  void* host = nullptr;
  const void* device = nullptr;
  size_t bytes = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual DeviceInfo info() const = 0;
  // What passes may know of the device.
  virtual Target target() const = 0;
  // Fails with kUnsupported, the shape, the type and the reason where no kernel exists; never falls
  // back to another device.
  virtual NodePlan plan(const Graph& graph, NodeId node) = 0;
  virtual std::unique_ptr<Memory> allocate(size_t bytes) = 0;
  // Host memory that transfers to and from this device are fastest with.
  virtual std::unique_ptr<Memory> allocate_host(size_t bytes) = 0;
  virtual std::unique_ptr<Executable> make_executable(std::vector<ScheduledLaunch> launches,
                                                      size_t cancellable) = 0;
  // Whether the host may read the device's memory directly.
  virtual bool host_accessible() const = 0;
  // Copies between host memory and this device; on return the data is there.
  virtual void read(void* host, const void* device, size_t bytes) = 0;
  virtual void write(void* device, const void* host, size_t bytes) = 0;
  // Within the device's memory, in order with programs; the host waits for nothing.
  virtual void copy(void* to, const void* from, size_t bytes) = 0;
  virtual void clear(void* device, size_t bytes) = 0;
  // As read of each, but a device is waited for once.
  virtual void read_all(std::span<const HostRead> reads) {
    for (const HostRead& r : reads) read(r.host, r.device, r.bytes);
  }
  // Returns when everything that was enqueued is done; fails with what failed.
  virtual void wait() {}
  // Takes its memory from `memory`, this backend or one around it that counts; both outlive the
  // feed.
  virtual std::unique_ptr<Feed> make_feed(const FeedSpec& spec, Backend& memory);
  // The channel of this device, made of one between the hosts of all: that itself, where the host
  // reads the device's memory. Waits for the other ranks, for each not longer than `timeout`. Takes
  // its memory from `memory`, this backend or one around it that counts.
  virtual std::unique_ptr<Channel> make_channel(std::unique_ptr<Channel> hosts,
                                                std::chrono::nanoseconds timeout,
                                                std::shared_ptr<Backend> memory) = 0;
};

}  // namespace assay
