// An exchange by messages of MPI. Nothing blocks in MPI itself, which knows no time limits:
// messages are started and asked after until all have arrived or time is over.
#include "sdk/comm/mpi.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "sdk/base/expect.h"
#include "sdk/comm/host_channel.h"

namespace assay {
namespace {

// What is used of Open MPI 4, as its mpi.h declares it: handles are addresses, constants are fixed
// by its binary interface.
using Comm = void*;
using Datatype = void*;
using Request = void*;
constexpr int kSuccess = 0, kThreadSerialized = 2, kAnyLength = 256;

struct Mpi {
  int (*initialized)(int*);
  int (*finalized)(int*);
  int (*init_thread)(int*, char***, int, int*);
  int (*query_thread)(int*);
  int (*finalize)();
  int (*comm_rank)(Comm, int*);
  int (*comm_size)(Comm, int*);
  int (*comm_dup)(Comm, Comm*);
  int (*comm_free)(Comm*);
  int (*comm_set_errhandler)(Comm, void*);
  int (*isend)(const void*, int, Datatype, int, int, Comm, Request*);
  int (*irecv)(void*, int, Datatype, int, int, Comm, Request*);
  int (*test)(Request*, int*, void*);
  int (*error_string)(int, char*, int*);
  Comm world;
  Datatype byte;
  void* errors_return;
};

template <class T>
void find(void* library, const char* name, T& to) {
  void* const symbol = dlsym(library, name);
  require(symbol != nullptr, Code::kUnsupported, "libmpi.so.40 has no ", name,
          "; Open MPI 4 is needed (libopenmpi3)");
  to = reinterpret_cast<T>(symbol);
}

Mpi open_mpi() {
  // Its own plug-ins look for the library's symbols among those of the process.
  void* const library = dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    fail(Code::kUnsupported, cat("Open MPI cannot be used: ", why),
         {.hint = "install libopenmpi3"});
  }
  Mpi mpi{};
  find(library, "MPI_Initialized", mpi.initialized);
  find(library, "MPI_Finalized", mpi.finalized);
  find(library, "MPI_Init_thread", mpi.init_thread);
  find(library, "MPI_Query_thread", mpi.query_thread);
  find(library, "MPI_Finalize", mpi.finalize);
  find(library, "MPI_Comm_rank", mpi.comm_rank);
  find(library, "MPI_Comm_size", mpi.comm_size);
  find(library, "MPI_Comm_dup", mpi.comm_dup);
  find(library, "MPI_Comm_free", mpi.comm_free);
  find(library, "MPI_Comm_set_errhandler", mpi.comm_set_errhandler);
  find(library, "MPI_Isend", mpi.isend);
  find(library, "MPI_Irecv", mpi.irecv);
  find(library, "MPI_Test", mpi.test);
  find(library, "MPI_Error_string", mpi.error_string);
  find(library, "ompi_mpi_comm_world", mpi.world);
  find(library, "ompi_mpi_byte", mpi.byte);
  find(library, "ompi_mpi_errors_return", mpi.errors_return);
  return mpi;
}

const Mpi& mpi() {
  static const Mpi opened = open_mpi();
  return opened;
}

void check(int result, const char* call) {
  if (result == kSuccess) return;
  char text[kAnyLength];
  int length = 0;
  mpi().error_string(result, text, &length);
  fail(Code::kComm, cat(call, ": ", std::string_view(text, static_cast<size_t>(length))),
       {.domain = Domain::kMpi, .native_code = result});
}

// MPI is up while a session lives.
class Session {
 public:
  Session() {
    int over = 0, up = 0, level = 0;
    check(mpi().finalized(&over), "MPI_Finalized");
    require(over == 0, Code::kInvalid,
            "MPI was finalized in this process, and cannot be initialised again");
    check(mpi().initialized(&up), "MPI_Initialized");
    ours_ = up == 0;
    if (ours_)
      check(mpi().init_thread(nullptr, nullptr, kThreadSerialized, &level), "MPI_Init_thread");
    else
      check(mpi().query_thread(&level), "MPI_Query_thread");
    require(level >= kThreadSerialized, Code::kUnsupported,
            "MPI was initialised for calls of one thread only; MPI_THREAD_SERIALIZED is needed");
  }
  ~Session() {
    if (ours_ && !broken_) mpi().finalize();
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  // Ranks that do not answer would not come to a finalization either.
  void set_broken() { broken_ = true; }

 private:
  bool ours_ = false;
  std::atomic<bool> broken_{false};
};

std::shared_ptr<Session> session() {
  static auto& mutex = *new std::mutex;
  static auto& shared = *new std::weak_ptr<Session>;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Session> open = shared.lock();
  if (open == nullptr) shared = open = std::make_shared<Session>();
  return open;
}

struct Message {
  Request request = nullptr;
  int peer = 0;
  bool received = false, over = false;
};

// First as often as possible, as most answers are near; then so seldom that the wait takes nothing
// from those who compute.
class Patience {
 public:
  void wait() {
    if (++asked_ < 200)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  void progress() { asked_ = 0; }

 private:
  int asked_ = 0;
};

class MpiChannel : public HostChannel {
 public:
  MpiChannel(int rank, int size, std::chrono::nanoseconds timeout)
      : HostChannel(rank, size, timeout), session_(session()) {
    int own = 0, all = 0;
    check(mpi().comm_rank(mpi().world, &own), "MPI_Comm_rank");
    check(mpi().comm_size(mpi().world, &all), "MPI_Comm_size");
    expect_started(own == rank && all == size, rank, size, own, all);
    check(mpi().comm_dup(mpi().world, &comm_), "MPI_Comm_dup");
    mpi().comm_set_errhandler(comm_, mpi().errors_return);
  }
  // After a failure messages may be under way for ever: their memory stays MPI's, and so does
  // comm_.
  ~MpiChannel() override {
    if (ended_.empty() && !aborted_)
      mpi().comm_free(&comm_);
    else
      session_->set_broken();
  }
  MpiChannel(const MpiChannel&) = delete;
  MpiChannel& operator=(const MpiChannel&) = delete;

  void abort() override { aborted_ = true; }

 private:
  static void expect_started(bool right, int rank, int size, int own, int all) {
    if (right) return;
    fail_mismatch(Code::kInvalid, {"rank of world", "rank", cat(rank, " of ", size),
                                   cat(own, " of ", all, ", as MPI started this process"),
                                   "start the program with mpirun -np N"});
  }

  void exchange(std::span<const Sent> to, std::span<const Received> from) override {
    if (!ended_.empty()) fail(Code::kComm, cat("the channel has ended: ", ended_));
    messages_.clear();
    for (size_t r = 0; r < from.size(); ++r) start(from[r], static_cast<int>(r), true);
    for (size_t r = 0; r < to.size(); ++r) start(to[r], static_cast<int>(r), false);
    finish();
  }

  template <class Bytes>
  void start(Bytes bytes, int peer, bool received) {
    constexpr size_t kMost = size_t{1} << 28;  // counts are ints
    for (; !bytes.empty(); bytes = bytes.subspan(std::min(kMost, bytes.size()))) {
      Message& message = messages_.emplace_back(Message{.peer = peer, .received = received});
      const int n = static_cast<int>(std::min(kMost, bytes.size()));
      if constexpr (std::is_same_v<Bytes, Received>)
        note(mpi().irecv(bytes.data(), n, mpi().byte, peer, 0, comm_, &message.request),
             "MPI_Irecv");
      else
        note(mpi().isend(bytes.data(), n, mpi().byte, peer, 0, comm_, &message.request),
             "MPI_Isend");
    }
  }

  void finish() {
    const auto end = std::chrono::steady_clock::now() + timeout();
    Patience patience;
    for (size_t open = messages_.size(); open > 0;) {
      for (Message& message : messages_) {
        if (message.over) continue;
        int over = 0;
        note(mpi().test(&message.request, &over, nullptr), "MPI_Test");
        message.over = over != 0;
        if (message.over) --open, patience.progress();
      }
      if (open == 0) return;
      if (aborted_) end_with(Code::kComm, cat("rank ", rank(), " has aborted it"));
      if (std::chrono::steady_clock::now() > end) fail_late();
      patience.wait();
    }
  }

  [[noreturn]] void fail_late() {
    std::vector<int> late;
    for (const bool received : {true, false}) {  // who has sent nothing, else who takes nothing
      for (const Message& message : messages_) {
        const bool listed = std::ranges::find(late, message.peer) != late.end();
        if (!message.over && message.received == received && !listed) late.push_back(message.peer);
      }
      if (!late.empty()) break;
    }
    end_with(Code::kTimeout,
             cat(ranks_text(late), late.size() == 1 ? " has" : " have", " not come within ",
                 std::chrono::duration<double>(timeout()).count(), " s"));
  }

  void note(int result, const char* call) {
    try {
      check(result, call);
    } catch (const Error& error) {
      ended_ = error.message();
      throw;
    }
  }
  [[noreturn]] void end_with(Code code, const std::string& why) {
    ended_ = why;
    fail(code, why);
  }

  std::shared_ptr<Session> session_;
  Comm comm_ = nullptr;
  std::vector<Message> messages_;  // of the exchange under way
  std::string ended_;
  std::atomic<bool> aborted_{false};
};

}  // namespace

std::unique_ptr<Channel> make_mpi_channel(int rank, int size, std::chrono::nanoseconds timeout) {
  return std::make_unique<MpiChannel>(rank, size, timeout);
}

}  // namespace assay
