// NCCL between threads of this process, each of which plays a device of the emulated runtime:
// libnccl.so.2 for tests. What is sent is moved when both sides have come to it on their streams;
// under the schedule kAtOnce it leaves as soon as its sender has. As of a communicator that is not
// blocking, a group is put on its stream some time after the call. What is not right with NCCL
// waits for ever, or ends the program with a message.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sdk/backend/cuda/nccl.h"
#include "tests/gpu/emulation/runtime.h"

namespace assay::cuda::emulation {
namespace {

constexpr int kSystemError = 2, kInvalidArgument = 4, kInvalidUsage = 5;

[[noreturn]] void stop(const char* message) {
  std::fprintf(stderr, "NCCL emulation: %s\n", message);
  std::abort();
}

// One side of what is sent.
struct Transfer {
  int from, to;
  char* data;  // source or target
  size_t bytes;
  bool is_send;
  bool over = false;
  std::vector<char> left{};  // of a send that has left already
};

// What the ranks of one id share.
struct Clique {
  int ranks = 0;
  std::set<int> joined, devices;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Transfer>>> sends, receives;

  // Moves what both sides have come to, in order. Other sizes than expected wait for ever.
  void match(int from, int to) {
    auto &sent = sends[{from, to}], &received = receives[{from, to}];
    while (!sent.empty() && !received.empty() && sent.front()->bytes == received.front()->bytes) {
      Transfer &source = *sent.front(), &target = *received.front();
      std::memcpy(target.data, source.left.empty() ? source.data : source.left.data(),
                  target.bytes);
      source.over = target.over = true;
      sent.pop_front(), received.pop_front();
    }
  }
  void forget(const std::shared_ptr<Transfer>& transfer) {
    for (auto* all : {&sends, &receives})
      std::erase((*all)[{transfer->from, transfer->to}], transfer);
  }
};

std::shared_ptr<Clique> clique_of(const NcclId& id) {
  static auto& all = *new std::map<std::string, std::weak_ptr<Clique>>;
  std::weak_ptr<Clique>& known = all[std::string(id.bytes, sizeof id.bytes)];
  std::shared_ptr<Clique> clique = known.lock();
  if (clique == nullptr) known = clique = std::make_shared<Clique>();
  return clique;
}

class Exchange;

}  // namespace
}  // namespace assay::cuda::emulation

using assay::cuda::emulation::Clique;
using assay::cuda::emulation::Exchange;

struct ncclComm {
  std::shared_ptr<Clique> clique;
  int rank = 0;
  int asked = 0;                       // since a group was closed
  std::shared_ptr<Exchange> closed{};  // and not yet put on its stream
  CUstream_st* stream = nullptr;
  std::vector<std::weak_ptr<Exchange>> exchanges{};
  int error = 0;
  bool aborted = false, finalized = false;

  bool is_up() const { return static_cast<int>(clique->joined.size()) == clique->ranks; }
};

namespace assay::cuda::emulation {
namespace {

// A group's work on the device, once or in a graph as often as that runs.
class Exchange {
 public:
  Exchange(ncclComm& comm, std::vector<Transfer> all, bool fails)
      : comm_(comm), all_(std::move(all)), fails_(fails) {}

  // True once it is over.
  bool turn() {
    if (comm_.aborted && nccl_ends()) return end();
    if (fails_) {
      comm_.error = kNcclRemoteError;
      return false;
    }
    if (under_way_.empty()) post();
    for (const auto& transfer : under_way_) comm_.clique->match(transfer->from, transfer->to);
    for (const auto& transfer : under_way_) {
      if (!transfer->over && !transfer->left.empty()) continue;  // nobody waits for it here
      if (!transfer->over) return false;
    }
    under_way_.clear();
    return true;
  }

 private:
  void post() {
    for (const Transfer& transfer : all_) {
      under_way_.push_back(std::make_shared<Transfer>(transfer));
      Transfer& posted = *under_way_.back();
      auto& side = posted.is_send ? comm_.clique->sends : comm_.clique->receives;
      side[{posted.from, posted.to}].push_back(under_way_.back());
      if (posted.is_send && schedule() == Schedule::kAtOnce)
        posted.left.assign(posted.data, posted.data + posted.bytes);
    }
  }
  // What an aborted receive leaves behind is anything.
  bool end() {
    for (const auto& transfer : under_way_) {
      if (transfer->over) continue;
      comm_.clique->forget(transfer);
      if (!transfer->is_send) std::memset(transfer->data, 0x3f, transfer->bytes / 2);
    }
    under_way_.clear();
    return true;
  }

  ncclComm& comm_;
  const std::vector<Transfer> all_;
  const bool fails_;
  std::vector<std::shared_ptr<Transfer>> under_way_;
};

// The group that this thread has opened.
struct Group {
  int depth = 0;
  ncclComm* comm = nullptr;
  CUstream_st* stream = nullptr;
  std::vector<Transfer> transfers;
  int error = 0;
};
Group& group() {
  static thread_local Group of_thread;
  return of_thread;
}

int begin_call() { return begin_nccl_call() == NcclFault::kNow ? kSystemError : kNcclSuccess; }

int add_transfer(char* data, size_t count, int type, int peer, ncclComm* comm, CUstream_st* stream,
                 bool is_send) {
  Group& open = group();
  if (open.depth == 0) stop("a transfer outside of a group");
  if (comm->aborted || comm->finalized) stop("a communicator was used after its end");
  if (int error = begin_call(); error != kNcclSuccess) return open.error = error;
  const bool right = type == kNcclInt8 && peer >= 0 && peer < comm->clique->ranks && count > 0 &&
                     is_device_memory(data, count) &&
                     (open.comm == nullptr || (open.comm == comm && open.stream == stream));
  if (!right) return open.error = kInvalidArgument;
  open.comm = comm, open.stream = stream;
  const int from = is_send ? comm->rank : peer, to = is_send ? peer : comm->rank;
  open.transfers.push_back({from, to, data, count, is_send});
  return kNcclSuccess;
}

}  // namespace
}  // namespace assay::cuda::emulation

using namespace assay::cuda;
using namespace assay::cuda::emulation;

// NOLINTBEGIN(readability-identifier-naming): the names are NCCL's.
extern "C" {

int ncclGetVersion(int* version) {
  *version = 22809;
  return kNcclSuccess;
}

const char* ncclGetErrorString(int) { return "an emulated result"; }
const char* ncclGetLastError(ncclComm*) { return "the last error of NCCL"; }

int ncclGetUniqueId(NcclId* id) {
  static int made = 0;
  if (int error = begin_call(); error != kNcclSuccess) return error;
  alone([&] { std::snprintf(id->bytes, sizeof id->bytes, "clique %d", ++made); });
  return kNcclSuccess;
}

// `config` as NCCL reads it.
int ncclCommInitRankConfig(ncclComm** comm, int ranks, NcclId id, int rank, NcclConfig* config) {
  if (int error = begin_call(); error != kNcclSuccess) return error;
  if (config->magic != 0xcafebeef || config->size < 20 || config->blocking != 0)
    return kInvalidArgument;
  int result = kNcclInProgress;
  alone([&] {
    const std::shared_ptr<Clique> clique = clique_of(id);
    clique->ranks = ranks;
    const bool fits =
        clique->joined.insert(rank).second && clique->devices.insert(device_of_thread()).second;
    *comm = new ncclComm{clique, rank};
    if (!fits) (*comm)->error = result = kInvalidUsage;  // two ranks on one device
  });
  return result;
}

int ncclCommGetAsyncError(ncclComm* comm, int* state) {
  alone([&] {
    if (comm->aborted) stop("a communicator was used after its end");
    *state = comm->is_up() || comm->error != kNcclSuccess ? comm->error : kNcclInProgress;
    if (comm->closed == nullptr) return;
    *state = kNcclInProgress;
    if (++comm->asked < 2) return;
    const std::shared_ptr<Exchange> exchange = std::move(comm->closed);
    enqueue_waiting(comm->stream, [exchange] { return exchange->turn(); });
  });
  return kNcclSuccess;
}

int ncclGroupStart() {
  if (int error = begin_call(); error != kNcclSuccess) return error;
  ++group().depth;
  return kNcclSuccess;
}

int ncclGroupEnd() {
  Group open = std::exchange(group(), {});
  if (open.depth != 1) return kInvalidUsage;
  const NcclFault fault = begin_nccl_call();
  if (fault == NcclFault::kNow) return kSystemError;
  if (open.error != kNcclSuccess || open.transfers.empty()) return open.error;
  alone([&] {
    open.comm->closed = std::make_shared<Exchange>(*open.comm, std::move(open.transfers),
                                                   fault == NcclFault::kLater);
    open.comm->exchanges.push_back(open.comm->closed);
    open.comm->stream = open.stream;
    open.comm->asked = 0;
  });
  return kNcclInProgress;
}

int ncclSend(const void* data, size_t count, int type, int peer, ncclComm* comm,
             CUstream_st* stream) {
  return add_transfer(static_cast<char*>(const_cast<void*>(data)), count, type, peer, comm, stream,
                      true);
}
int ncclRecv(void* data, size_t count, int type, int peer, ncclComm* comm, CUstream_st* stream) {
  return add_transfer(static_cast<char*>(data), count, type, peer, comm, stream, false);
}

int ncclCommFinalize(ncclComm* comm) {
  if (int error = begin_call(); error != kNcclSuccess) return error;
  comm->finalized = true;
  return kNcclInProgress;
}

// NCCL waits here for graphs that use the communicator.
int ncclCommDestroy(ncclComm* comm) {
  if (int error = begin_call(); error != kNcclSuccess) return error;
  alone([&] {
    for (const auto& exchange : comm->exchanges) {
      if (!exchange.expired()) stop("a communicator was destroyed before a graph that uses it");
    }
    delete comm;
  });
  return kNcclSuccess;
}

// What waits on the device ends; the call waits for graphs.
int ncclCommAbort(ncclComm* comm) {
  alone([&] { comm->aborted = true, comm->closed = nullptr; });
  for (bool is_used = true; is_used;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    alone([&] {
      is_used = std::ranges::any_of(comm->exchanges, [](auto& each) { return !each.expired(); });
      if (!is_used) delete comm;
    });
  }
  return kNcclSuccess;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
