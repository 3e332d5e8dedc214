#include "tests/gpu/emulation/runtime.h"

#include <cublasLt.h>
#include <cuda.h>
#include <cudnn.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "sdk/backend/cuda/check.h"
#include "sdk/base/align.h"

using Clock = std::chrono::steady_clock;
using Work = std::function<bool()>;  // true once it is over, else it is called again

// Work that waits for nobody.
static Work over(const std::function<void()>& work) {
  return [work] {
    work();
    return true;
  };
}

struct Piece {
  Work work;
  std::set<size_t> behind;  // pieces that must be over before it
};
struct CUgraph_st {
  std::vector<Piece> pieces;
  std::set<cudaStream_t> streams;  // captured into it
};
struct CUgraphExec_st {
  std::vector<Piece> pieces;
};
// A run of a graph that is under way.
struct GraphRun {
  std::vector<size_t> missing;            // by piece: how many must be over before it
  std::vector<std::vector<size_t>> next;  // by piece: those that wait for it
  std::set<size_t> ready;
};
struct CUevent_st {
  cudaStream_t stream = nullptr;  // of the last record
  uint64_t recorded = 0;          // how many records were enqueued, and how many have run
  uint64_t reached = 0;
  Clock::time_point at;
  cudaGraph_t graph = nullptr;  // that the last record was captured into, behind these pieces
  std::set<size_t> behind;
};
struct CUstream_st {
  int device = 0;
  std::deque<Work> queue;
  cudaGraph_t captured = nullptr;  // while work goes there, behind these pieces
  std::set<size_t> behind;
};

namespace assay::cuda::emulation {
namespace {

constexpr size_t kAlignment = 256;
thread_local int current_device = 0;
// Captures are begun in thread-local mode: what may not be called during one concerns its thread.
thread_local int captures = 0;
thread_local bool captures_are_valid = true;

class Runtime {
 public:
  Machine machine;
  Counts counts;
  std::recursive_mutex mutex;
  cudaError_t last = cudaSuccess, sticky = cudaSuccess, planned = cudaSuccess;
  std::map<uintptr_t, size_t> device, pinned;  // blocks
  std::set<cudaStream_t> streams;
  std::set<cudaEvent_t> events;
  std::set<int> contexts;      // devices
  std::set<cudaGraph_t> open;  // that are being captured into
  std::minstd_rand random;
  int64_t calls = 0, failing_call = 0;
  size_t graphs = 0;

  cudaError_t report(cudaError_t error) {
    if (error != cudaSuccess) last = error;
    return error;
  }

  // What a call gives before it does anything.
  cudaError_t begin_call() {
    const bool fails = ++calls == failing_call;
    return report(fails ? cudaErrorInvalidValue : sticky);
  }

  void enqueue(cudaStream_t stream, Work work) {
    ++counts.enqueued;
    if (stream->captured != nullptr) {
      std::vector<Piece>& pieces = stream->captured->pieces;
      pieces.push_back({std::move(work), std::exchange(stream->behind, {pieces.size()})});
      return;
    }
    stream->queue.push_back(std::move(work));
    if (machine.schedule == Schedule::kAtOnce) run_some(stream);
  }
  void enqueue_transfer(cudaStream_t stream, Work work) {
    enqueue(stream, std::move(work));
    if (machine.schedule == Schedule::kTransfersAtOnce && stream->captured == nullptr)
      run_some(stream);
  }

  // False if the stream's next piece of work waits for another device.
  bool run_one(cudaStream_t stream) {
    Work work = std::move(stream->queue.front());
    stream->queue.pop_front();
    if (sticky != cudaSuccess) return true;
    if (planned != cudaSuccess) {
      if (is_sticky(planned)) sticky = planned;
      last = planned;
      planned = cudaSuccess;
      return true;
    }
    const bool over = work();
    if (!over) stream->queue.push_front(std::move(work));
    return over;
  }
  void run_some(cudaStream_t stream) {
    while (!stream->queue.empty() && run_one(stream)) {
    }
  }
  void run_all(cudaStream_t stream) {
    for (run_some(stream); !stream->queue.empty(); run_some(stream)) give_way();
  }
  // Of the current device.
  void run_everything() {
    const std::vector<cudaStream_t> all(streams.begin(), streams.end());
    for (cudaStream_t stream : all) {
      if (stream->device == current_device) run_all(stream);
    }
  }
  // Until the event's `generation`-th record has run; false if that waits for another device.
  bool run_until(cudaEvent_t event, uint64_t generation) {
    while (event->reached < generation && !event->stream->queue.empty()) {
      if (!run_one(event->stream)) return false;
    }
    return true;
  }
  void wait_until(cudaEvent_t event, uint64_t generation) {
    while (!run_until(event, generation)) give_way();
  }
  // To threads that play other devices. Of calls of CUDA, which lock once.
  void give_way() {
    mutex.unlock();
    std::this_thread::yield();
    mutex.lock();
  }

  cudaError_t refuse_in_capture(cudaError_t why = cudaErrorStreamCaptureUnsupported) {
    captures_are_valid = false;
    return report(why);
  }

  // The stream goes on behind an event that was captured: into the same graph, if it is open.
  cudaError_t wait_in_capture(cudaStream_t stream, const CUevent_st& event) {
    if (!open.contains(event.graph)) return report(cudaErrorCapturedEvent);
    if (stream->captured != nullptr && stream->captured != event.graph)
      return refuse_in_capture(cudaErrorStreamCaptureIsolation);
    if (stream->captured == nullptr) stream->behind.clear();
    stream->captured = event.graph;
    event.graph->streams.insert(stream);
    stream->behind.insert(event.behind.begin(), event.behind.end());
    return cudaSuccess;
  }

  // Whether all that was captured comes before the end of `stream`.
  static bool is_joined(const CUgraph_st& graph, cudaStream_t stream) {
    std::set<size_t> before = stream->behind;
    for (size_t i = graph.pieces.size(); i-- > 0;) {
      if (before.contains(i))
        before.insert(graph.pieces[i].behind.begin(), graph.pieces[i].behind.end());
    }
    return before.size() == graph.pieces.size();
  }

  static GraphRun begin(const std::vector<Piece>& pieces) {
    GraphRun run;
    run.next.resize(pieces.size());
    for (size_t i = 0; i < pieces.size(); ++i) {
      run.missing.push_back(pieces[i].behind.size());
      if (run.missing[i] == 0) run.ready.insert(i);
      for (const size_t before : pieces[i].behind) run.next[before].push_back(i);
    }
    return run;
  }
  // In an order that the graph allows: each time the first or the last of the pieces that may run,
  // or any. False if all of these wait for other devices.
  bool go_on(GraphRun& run, const std::vector<Piece>& pieces) {
    std::set<size_t> tried = run.ready;
    while (!tried.empty()) {
      const auto chosen = machine.schedule == Schedule::kLate     ? std::prev(tried.end())
                          : machine.schedule == Schedule::kAtOnce ? tried.begin()
                                                                  : any_of(tried);
      const size_t piece = *chosen;
      tried.erase(chosen);
      if (!pieces[piece].work()) continue;
      run.ready.erase(piece);
      for (const size_t i : run.next[piece]) {
        if (--run.missing[i] == 0) run.ready.insert(i);
      }
      tried = run.ready;
    }
    return run.ready.empty();
  }
  std::set<size_t>::iterator any_of(const std::set<size_t>& ready) {
    std::uniform_int_distribution<std::ptrdiff_t> distance(0, std::ssize(ready) - 1);
    return std::next(ready.begin(), distance(random));
  }

  cudaError_t allocate(std::map<uintptr_t, size_t>& blocks, void** data, size_t bytes) {
    if (const cudaError_t error = begin_call(); error != cudaSuccess) return error;
    if (captures > 0) return refuse_in_capture();
    if (bytes > machine.memory) return report(cudaErrorMemoryAllocation);
    ++counts.allocations;
    contexts.insert(current_device);
    const size_t rounded = align_up(bytes, kAlignment);
    *data = std::aligned_alloc(kAlignment, rounded);
    std::memset(*data, 0xff, rounded);
    blocks[reinterpret_cast<uintptr_t>(*data)] = bytes;
    return cudaSuccess;
  }
  cudaError_t free(std::map<uintptr_t, size_t>& blocks, void* data) {
    if (sticky != cudaSuccess) return report(sticky);
    if (data == nullptr) return cudaSuccess;
    if (captures > 0) return refuse_in_capture();
    if (blocks.erase(reinterpret_cast<uintptr_t>(data)) == 0) return report(cudaErrorInvalidValue);
    run_everything();
    std::free(data);
    return cudaSuccess;
  }
  // Whether [data, data + bytes) lies in one of the blocks.
  static bool inside(const std::map<uintptr_t, size_t>& blocks, const void* data, size_t bytes) {
    const auto address = reinterpret_cast<uintptr_t>(data);
    auto block = blocks.upper_bound(address);
    if (block == blocks.begin()) return false;
    --block;
    return address + bytes <= block->first + block->second;
  }

  cudaError_t wait(const std::function<void()>& run) {
    if (captures > 0) return refuse_in_capture();
    ++counts.synchronizations;
    const cudaError_t before = last;
    last = cudaSuccess;
    run();
    const cudaError_t result = sticky != cudaSuccess ? sticky : last;
    if (result == cudaSuccess) last = before;
    return report(result);
  }

  void reset() {
    for (auto* blocks : {&device, &pinned}) {
      for (const auto& [address, bytes] : *blocks) std::free(reinterpret_cast<void*>(address));
      blocks->clear();
    }
    for (cudaStream_t stream : streams) delete stream;
    for (cudaEvent_t event : events) delete event;
    for (cudaGraph_t graph : open) delete graph;
    graphs = 0;  // what is left is lost with the device
    streams.clear();
    events.clear();
    open.clear();
    last = sticky = planned = cudaSuccess;
    captures = 0;
  }
};

Runtime& runtime() {
  static Runtime& the = *new Runtime;
  return the;
}

// The runtime, locked.
class Locked {
 public:
  Runtime* operator->() const { return &runtime(); }

 private:
  std::lock_guard<std::recursive_mutex> lock_{runtime().mutex};
};

}  // namespace

Machine& machine() { return runtime().machine; }
Counts counts() { return Locked()->counts; }
void fail_next_work(cudaError_t error) { Locked()->planned = error; }
void fail_unseen(cudaError_t error) { Locked()->sticky = error; }
Held held() {
  const Locked the;
  return {the->device.size() + the->pinned.size(), the->streams.size(), the->events.size(),
          the->graphs};
}
int64_t fail_call(int64_t n) {
  const Locked the;
  the->failing_call = n;
  return std::exchange(the->calls, 0);
}
bool has_context(int device) { return Locked()->contexts.contains(device); }
void enqueue_waiting(cudaStream_t stream, std::function<bool()> work) {
  Locked()->enqueue(stream, std::move(work));
}
void begin_launch() { check(Locked()->begin_call(), "launching a kernel"); }
void enqueue(cudaStream_t stream, const std::function<void()>& work) {
  enqueue_waiting(stream, over(work));
}
void alone(const std::function<void()>& body) {
  const Locked the;
  body();
}
Schedule schedule() { return machine().schedule; }
bool nccl_ends() { return machine().nccl_ends; }
int device_of_thread() { return current_device; }
bool is_device_memory(const void* data, size_t bytes) {
  const Locked the;
  return Runtime::inside(the->device, data, bytes);
}

namespace {
thread_local int64_t nccl_calls = 0, failing_nccl_call = 0;
thread_local bool nccl_fails_later = false;
}  // namespace

int64_t fail_nccl_call(int64_t n, bool later) {
  failing_nccl_call = n;
  nccl_fails_later = later;
  return std::exchange(nccl_calls, 0);
}
NcclFault begin_nccl_call() {
  if (++nccl_calls != failing_nccl_call) return NcclFault::kNone;
  return nccl_fails_later ? NcclFault::kLater : NcclFault::kNow;
}

}  // namespace assay::cuda::emulation

using assay::cuda::emulation::captures;
using assay::cuda::emulation::captures_are_valid;
using assay::cuda::emulation::current_device;
using assay::cuda::emulation::Locked;
using assay::cuda::emulation::Runtime;

cudaError_t cudaDriverGetVersion(int* version) {
  *version = Locked()->machine.driver;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  const Locked the;
  if (the->machine.driver < 13000) return the->report(cudaErrorInsufficientDriver);
  *count = the->machine.devices;
  return *count == 0 ? the->report(cudaErrorNoDevice) : cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const Locked the;
  if (device == the->machine.lost_device) return the->report(cudaErrorDevicesUnavailable);
  std::strcpy(properties->name, "NVIDIA H200");
  properties->totalGlobalMem = the->machine.memory;
  properties->major = the->machine.capability / 10;
  properties->minor = the->machine.capability % 10;
  properties->multiProcessorCount = 132;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  const Locked the;
  if (device < 0 || device >= the->machine.devices) return the->report(cudaErrorInvalidValue);
  current_device = device;
  the->contexts.insert(device);
  return the->sticky == cudaSuccess ? cudaSuccess : the->report(the->sticky);
}
cudaError_t cudaDeviceReset() {
  const Locked the;
  if (the->sticky != cudaSuccess && !the->machine.resets) return the->report(the->sticky);
  the->reset();
  the->contexts.erase(current_device);
  return cudaSuccess;
}
static CUresult primary_context_state(CUdevice device, unsigned* flags, int* active) {
  *flags = 0;
  *active = assay::cuda::emulation::has_context(device) ? 1 : 0;
  return CUDA_SUCCESS;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                             unsigned long long, cudaDriverEntryPointQueryResult*) {
  const bool known = std::strcmp(symbol, "cuDevicePrimaryCtxGetState") == 0;
  *function = known ? reinterpret_cast<void*>(primary_context_state) : nullptr;
  return known ? cudaSuccess : Locked()->report(cudaErrorInvalidValue);
}

cudaError_t cudaGetLastError() {
  const Locked the;
  return std::exchange(the->last, the->sticky);
}
cudaError_t cudaPeekAtLastError() { return Locked()->last; }
const char* cudaGetErrorName(cudaError_t) { return "cudaErrorEmulated"; }
const char* cudaGetErrorString(cudaError_t) { return "an emulated error"; }

cudaError_t cudaMalloc(void** data, size_t bytes) {
  const Locked the;
  return the->allocate(the->device, data, bytes);
}
cudaError_t cudaFree(void* data) {
  const Locked the;
  return the->free(the->device, data);
}
cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned) {
  const Locked the;
  return the->allocate(the->pinned, data, bytes);
}
cudaError_t cudaFreeHost(void* data) {
  const Locked the;
  return the->free(the->pinned, data);
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const Locked the;
  if (the->sticky != cudaSuccess) return the->report(the->sticky);
  *free = *total = the->machine.memory;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const Locked the;
  if (const cudaError_t error = the->begin_call(); error != cudaSuccess) return error;
  const bool to_device = kind != cudaMemcpyDeviceToHost;
  const bool from_device = kind != cudaMemcpyHostToDevice;
  if ((to_device && !Runtime::inside(the->device, to, bytes)) ||
      (from_device && !Runtime::inside(the->device, from, bytes))) {
    return the->report(cudaErrorInvalidValue);
  }
  if (from_device) {
    the->enqueue(stream, over([=] { std::memcpy(to, from, bytes); }));
  } else if (Runtime::inside(the->pinned, from, bytes)) {
    the->enqueue_transfer(stream, over([=] { std::memcpy(to, from, bytes); }));
  } else {
    const auto* begin = static_cast<const char*>(from);
    the->enqueue_transfer(stream, over([to, copy = std::vector<char>(begin, begin + bytes)] {
                            std::memcpy(to, copy.data(), copy.size());
                          }));
  }
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream) {
  const Locked the;
  if (const cudaError_t error = the->begin_call(); error != cudaSuccess) return error;
  if (!Runtime::inside(the->device, data, bytes)) return the->report(cudaErrorInvalidValue);
  the->enqueue(stream, over([=] { std::memset(data, value, bytes); }));
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const Locked the;
  if (const cudaError_t error = the->begin_call(); error != cudaSuccess) return error;
  the->contexts.insert(current_device);
  *stream = new CUstream_st;
  (*stream)->device = current_device;
  the->streams.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Locked the;
  the->run_all(stream);
  the->streams.erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const Locked the;
  if (!stream->queue.empty()) the->run_one(stream);  // time goes by between two of these
  if (the->sticky != cudaSuccess) return the->report(the->sticky);
  return stream->queue.empty() ? cudaSuccess : the->report(cudaErrorNotReady);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Locked the;
  return the->wait([&] { the->run_all(stream); });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const Locked the;
  if (const cudaError_t error = the->begin_call(); error != cudaSuccess) return error;
  if (event->graph != nullptr) return the->wait_in_capture(stream, *event);
  if (stream->captured != nullptr) return the->refuse_in_capture(cudaErrorStreamCaptureIsolation);
  the->enqueue(stream, [event, generation = event->recorded] {
    return assay::cuda::emulation::runtime().run_until(event, generation);
  });
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const Locked the;
  if (const cudaError_t error = the->begin_call(); error != cudaSuccess) return error;
  stream->captured = new CUgraph_st{{}, {stream}};
  ++the->graphs;
  stream->behind.clear();
  the->open.insert(stream->captured);
  ++captures;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const Locked the;
  --captures;
  *graph = stream->captured;
  the->open.erase(*graph);
  const bool joined = Runtime::is_joined(**graph, stream);
  for (cudaStream_t member : (*graph)->streams) member->captured = nullptr;
  const bool valid = std::exchange(captures_are_valid, true);
  if (valid && joined) return cudaSuccess;
  --the->graphs;
  delete std::exchange(*graph, nullptr);
  return the->report(valid ? cudaErrorStreamCaptureUnjoined : cudaErrorStreamCaptureInvalidated);
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  const Locked the;
  if (const cudaError_t error = the->begin_call(); error != cudaSuccess) return error;
  *event = new CUevent_st;
  the->events.insert(*event);
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return cudaEventCreate(event);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Locked the;
  the->wait_until(event, event->recorded);
  the->events.erase(event);
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Locked the;
  if (const cudaError_t error = the->begin_call(); error != cudaSuccess) return error;
  event->graph = stream->captured;
  event->behind = stream->behind;
  if (stream->captured != nullptr) return cudaSuccess;
  event->stream = stream;
  the->enqueue(stream, over([event, generation = ++event->recorded] {
                 event->reached = generation;
                 event->at = Clock::now();
               }));
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Locked the;
  return the->wait([&] { the->wait_until(event, event->recorded); });
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const Locked the;
  if (begin->reached == 0 || end->reached == 0) return the->report(cudaErrorInvalidValue);
  *milliseconds = std::chrono::duration<float, std::milli>(end->at - begin->at).count();
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned) {
  const Locked the;
  if (const cudaError_t error = the->begin_call(); error != cudaSuccess) return error;
  *executable = new CUgraphExec_st{graph->pieces};
  ++the->graphs;
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return Locked()->begin_call(); }
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  const Locked the;
  if (const cudaError_t error = the->begin_call(); error != cudaSuccess) return error;
  ++the->counts.graph_launches;
  the->enqueue(stream, [executable, run = Runtime::begin(executable->pieces)]() mutable {
    return assay::cuda::emulation::runtime().go_on(run, executable->pieces);
  });
  --the->counts.enqueued;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  --Locked()->graphs;
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  const Locked the;
  the->run_everything();
  --the->graphs;
  delete executable;
  return cudaSuccess;
}

size_t cudnnGetVersion() { return assay::cuda::emulation::machine().cudnn; }
const char* cudnnGetErrorString(cudnnStatus_t) { return "an emulated status"; }
void cudnnGetLastErrorString(char* text, size_t size) {
  if (size > 0) *text = '\0';
}
size_t cublasLtGetVersion() { return 130100; }
const char* cublasLtGetStatusName(cublasStatus_t) { return "CUBLAS_STATUS_EMULATED"; }
const char* cublasLtGetStatusString(cublasStatus_t) { return "an emulated status"; }
