// CUDA's runtime on the processor, so that streams, events, graphs, errors and memory of
// sdk/backend/cuda are tested without a GPU.
//
// Work enqueued on a stream runs when somebody must wait for it, as late as the rules allow: what
// lacks a synchronisation or an event reads old contents. Under other schedules some or all of it
// runs at once: what lacks one overwrites too early. Copies from pinned memory read it when they
// run, copies from other memory when they are enqueued, as CUDA's do. New memory is filled with
// NaNs; addresses and sizes of copies are checked. A graph keeps what orders its pieces and nothing
// else: branches that no event orders are taken in another order under each schedule. Thread-safe.
// Devices differ in nothing: they share memory and errors, and each thread has a current one. Work
// may wait for that of another device: then the other threads, which play those, go on.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>

// Seen by loop_nccl.cpp in the program that holds it, and by programs in the plug-in that does.
#pragma GCC visibility push(default)

namespace assay::cuda::emulation {

enum class Schedule {
  kLate,
  kAtOnce,
  kTransfersAtOnce,  // copies to the device, and what stands before them on their stream
};

// What the calls below report and keep to.
struct Machine {
  int driver = 13000;  // 0: there is none
  int devices = 1;
  int capability = 90;
  size_t memory = size_t{141} << 30;
  size_t cudnn = 91900;
  bool resets = true;    // false: a reset repairs nothing
  int lost_device = -1;  // one that does not say what it is
  Schedule schedule = Schedule::kLate;
  bool nccl_ends = true;  // false: what waits on a device for others stays, even after an abort
};
Machine& machine();

// Calls since the program began.
struct Counts {
  int64_t allocations = 0;  // of device or pinned memory
  int64_t synchronizations = 0;
  int64_t graph_launches = 0;
  int64_t enqueued = 0;  // copies, kernels and the rest, graphs not included
};
Counts counts();

// What the device holds.
struct Held {
  size_t blocks = 0;  // of device and pinned memory
  size_t streams = 0;
  size_t events = 0;
  size_t graphs = 0;  // captured ones, and what was made of them
};
Held held();

// The n-th call from now on that makes, copies, records or launches fails, and leaves the device as
// it is; with 0, none. Returns how many such calls there were since the last time.
int64_t fail_call(int64_t n);

// The next piece of work fails with this error; if it is a sticky one, so does every later call,
// until the device is reset.
void fail_next_work(cudaError_t error);

// The device fails with this sticky error, unseen by the runtime's last error: as after a kernel of
// a library that has a runtime of its own.
void fail_unseen(cudaError_t error);

// Whether the process has a context on the device; choosing it makes one.
bool has_context(int device);

// Counts a launch as fail_call does; fails, as the next check of errors would tell, if it is its
// turn or the device has failed.
void begin_launch();

// Appends work to a stream, or to the graph that it is captured into.
void enqueue(cudaStream_t stream, const std::function<void()>& work);

// The n-th call of NCCL by this thread from now on fails; with 0, none. `later`: the call succeeds,
// and what it begins fails. Returns how many calls there were since the last time.
int64_t fail_nccl_call(int64_t n, bool later = false);

// ---- For loop_nccl.cpp, which is a library of its own ----

// Work that waits for other devices: it is called again and again until it says that it is over.
void enqueue_waiting(cudaStream_t stream, std::function<bool()> work);
// Runs body() while no work and no other call runs.
void alone(const std::function<void()>& body);
Schedule schedule();
bool nccl_ends();
int device_of_thread();
bool is_device_memory(const void* data, size_t bytes);
enum class NcclFault { kNone, kNow, kLater };
NcclFault begin_nccl_call();

}  // namespace assay::cuda::emulation

#pragma GCC visibility pop
