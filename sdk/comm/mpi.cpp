// An exchange by messages of MPI, which knows no time limits: messages are started and asked after
// until all have arrived or time is over, and the few calls that wait in MPI itself do so on a
// thread that can be left behind.
//
// A rank that gives up tells the others why, and how many exchanges it was in to the end: what it
// sent in those still comes, even behind that message. From then on its process makes no call of
// MPI, which alone would move the data that is still under way to memory that is gone.
#include "sdk/comm/mpi.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <future>
#include <mutex>
#include <optional>
#include <string>
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
struct Status {
  int source, tag, error, cancelled;
  size_t bytes;
};
constexpr int kSuccess = 0, kThreadSerialized = 2, kAnyLength = 256, kAnySource = -1;

constexpr int kData = 0, kFarewell = 1;  // tags

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
  int (*test)(Request*, int*, Status*);
  int (*get_count)(const Status*, Datatype, int*);
  int (*iprobe)(int, int, Comm, int*, Status*);
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
  find(library, "MPI_Get_count", mpi.get_count);
  find(library, "MPI_Iprobe", mpi.iprobe);
  find(library, "MPI_Error_string", mpi.error_string);
  find(library, "ompi_mpi_comm_world", mpi.world);
  find(library, "ompi_mpi_byte", mpi.byte);
  find(library, "ompi_mpi_errors_return", mpi.errors_return);
  return mpi;
}

const Mpi& mpi() {
  static const Mpi kOpened = open_mpi();
  return kOpened;
}

void check(int result, const char* call) {
  if (result == kSuccess) return;
  char text[kAnyLength];
  int length = 0;
  mpi().error_string(result, text, &length);
  fail(Code::kComm, cat(call, ": ", std::string_view(text, static_cast<size_t>(length))),
       {.domain = Domain::kMpi, .native_code = result});
}

std::string seconds(std::chrono::nanoseconds time) {
  return cat(std::chrono::duration<double>(time).count(), " s");
}

// Runs a call of MPI's that waits for all ranks; false if they have not come in time. The call then
// goes on for ever.
template <class Call>
bool returns_within(std::chrono::nanoseconds timeout, const char* name, const Call& call) {
  std::packaged_task<int()> task(call);
  std::future<int> result = task.get_future();
  std::thread(std::move(task)).detach();
  if (result.wait_for(timeout) == std::future_status::timeout) return false;
  check(result.get(), name);
  return true;
}

// MPI is up while a session lives.
class Session {
 public:
  explicit Session(std::chrono::nanoseconds timeout) : timeout_(timeout) {
    int over = 0, up = 0, level = 0;
    check(mpi().finalized(&over), "MPI_Finalized");
    require(over == 0, Code::kInvalid,
            "MPI was finalized in this process, and cannot be initialised again");
    check(mpi().initialized(&up), "MPI_Initialized");
    ours_ = up == 0;
    if (ours_) initialise();
    check(mpi().query_thread(&level), "MPI_Query_thread");
    require(level >= kThreadSerialized, Code::kUnsupported,
            "MPI was initialised for calls of one thread only; MPI_THREAD_SERIALIZED is needed");
  }
  // Ranks that have lost each other would not come to a finalization either.
  ~Session() {
    if (!ours_ || lost_) return;
    try {
      if (!returns_within(timeout_, "MPI_Finalize", [] { return mpi().finalize(); })) lost_ = true;
    } catch (...) {  // nobody is left to be told
    }
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  static void lose() { lost_ = true; }
  static bool is_lost() { return lost_; }

 private:
  void initialise() {
    const auto call = [] {
      int level = 0;
      return mpi().init_thread(nullptr, nullptr, kThreadSerialized, &level);
    };
    if (returns_within(timeout_, "MPI_Init_thread", call)) return;
    lost_ = true;
    fail(Code::kTimeout, cat("not all ranks have initialised MPI within ", seconds(timeout_)));
  }

  static inline std::atomic<bool> lost_{false};  // as good as finalized
  const std::chrono::nanoseconds timeout_;
  bool ours_ = false;
};

std::shared_ptr<Session> session(std::chrono::nanoseconds timeout) {
  static auto& mutex = *new std::mutex;
  static auto& shared = *new std::weak_ptr<Session>;
  const std::lock_guard lock(mutex);
  require(!Session::is_lost(), Code::kInvalid,
          "this process has given up other ranks of MPI; start all of them anew");
  std::shared_ptr<Session> open = shared.lock();
  if (open == nullptr) shared = open = std::make_shared<Session>(timeout);
  return open;
}

struct Message {
  Request request = nullptr;
  int peer = 0, bytes = 0;
  bool received = false, over = false;
};

// What a rank that gives up tells: the exchanges that were over for it, then why.
struct Farewell {
  uint64_t exchanges;
  std::string why;
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
      : HostChannel(rank, size, timeout), session_(session(timeout)) {
    int own = 0, all = 0;
    check(mpi().comm_rank(mpi().world, &own), "MPI_Comm_rank");
    check(mpi().comm_size(mpi().world, &all), "MPI_Comm_size");
    expect_started(own == rank && all == size, rank, size, own, all);
    const auto made = std::make_shared<Comm>();  // of a call that may outlive this
    const auto call = [made] { return mpi().comm_dup(mpi().world, made.get()); };
    if (!returns_within(timeout, "MPI_Comm_dup", call)) {
      Session::lose();
      fail(Code::kTimeout, cat("not all ranks have come within ", seconds(timeout)));
    }
    comm_ = *made;
    mpi().comm_set_errhandler(comm_, mpi().errors_return);
  }
  ~MpiChannel() override {
    try {
      if (aborted_) end(aborted_text());
    } catch (...) {  // the others may not know
      Session::lose();
    }
    if (heard_) Session::lose();  // who has given up does not finalize
    if (ended_.empty() && !Session::is_lost()) mpi().comm_free(&comm_);
  }
  MpiChannel(const MpiChannel&) = delete;
  MpiChannel& operator=(const MpiChannel&) = delete;

  void listen() override {
    if (ended_.empty() && Session::is_lost()) ended_ = "another one of this process has ended";
    if (!ended_.empty()) fail(Code::kComm, cat("the channel has ended: ", ended_));
    if (aborted_) end_with(Code::kComm, aborted_text());
    hear_farewell();
  }
  void abort() override { aborted_ = true; }

 private:
  static void expect_started(bool right, int rank, int size, int own, int all) {
    if (right) return;
    fail_mismatch(Code::kInvalid,
                  {"rank of world", "rank", cat(rank, " of ", size),
                   cat(own, " of ", all, ", as MPI started this process"),
                   all == 1 ? "start the program with mpirun -np N"
                            : "give OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE"});
  }

  void exchange(std::span<const Sent> to, std::span<const Received> from) override {
    listen();  // to one whose last message came before it gave up
    messages_.clear();
    for (size_t r = 0; r < from.size(); ++r) start(from[r], static_cast<int>(r));
    for (size_t r = 0; r < to.size(); ++r) start(to[r], static_cast<int>(r));
    finish();
    ++exchanges_;
  }

  template <class Bytes>
  void start(Bytes bytes, int peer) {
    constexpr size_t kMost = size_t{1} << 28;  // counts are ints
    for (; !bytes.empty(); bytes = bytes.subspan(std::min(kMost, bytes.size()))) {
      Message& message = messages_.emplace_back();
      message.peer = peer;
      message.bytes = static_cast<int>(std::min(kMost, bytes.size()));
      message.received = std::is_same_v<Bytes, Received>;
      if constexpr (std::is_same_v<Bytes, Received>)
        note(mpi().irecv(bytes.data(), message.bytes, mpi().byte, peer, kData, comm_,
                         &message.request),
             "MPI_Irecv");
      else
        note(mpi().isend(bytes.data(), message.bytes, mpi().byte, peer, kData, comm_,
                         &message.request),
             "MPI_Isend");
    }
  }

  void finish() {
    const auto end = std::chrono::steady_clock::now() + timeout();
    Patience patience;
    for (size_t open = messages_.size(); open > 0;) {
      for (Message& message : messages_) {
        if (!message.over && is_over(message)) --open, patience.progress();
      }
      if (open == 0) return;
      if (aborted_) end_with(Code::kComm, aborted_text());
      hear_farewell();
      if (std::chrono::steady_clock::now() > end) fail_late();
      patience.wait();
    }
  }

  bool is_over(Message& message) {
    int over = 0, bytes = 0;
    Status status{};
    const int result = mpi().test(&message.request, &over, &status);
    if (result != kSuccess) note(result, cat("a message of rank ", message.peer).c_str());
    message.over = over != 0;
    if (!message.over || !message.received) return message.over;
    note(mpi().get_count(&status, mpi().byte, &bytes), "MPI_Get_count");
    if (bytes != message.bytes)
      end_with(Code::kComm, cat("rank ", message.peer, " sent ", bytes, " bytes, and rank ", rank(),
                                " waited for ", message.bytes, ": they make different calls"));
    return true;
  }

  // Fails with the words of a rank that has given up, unless it was in this exchange to the end.
  void hear_farewell() {
    int said = 0;
    Status status{};
    note(mpi().iprobe(kAnySource, kFarewell, comm_, &said, &status), "MPI_Iprobe");
    if (said != 0) {
      Farewell farewell = receive_farewell(status);
      if (!heard_ || farewell.exchanges < heard_->exchanges) heard_ = std::move(farewell);
    }
    if (!heard_ || heard_->exchanges > exchanges_) return;
    ended_ = heard_->why;
    Session::lose();
    fail(Code::kComm, cat("the channel has ended: ", ended_));
  }

  Farewell receive_farewell(const Status& probed) {
    int bytes = 0;
    mpi().get_count(&probed, mpi().byte, &bytes);
    auto& text = *new std::string(static_cast<size_t>(bytes), ' ');  // MPI's if it does not come
    Request request = nullptr;
    note(mpi().irecv(text.data(), bytes, mpi().byte, probed.source, kFarewell, comm_, &request),
         "MPI_Irecv");
    int over = 0;
    Patience patience;
    for (int asked = 0; over == 0 && asked < kFarewellTries; ++asked, patience.wait())
      note(mpi().test(&request, &over, nullptr), "MPI_Test");
    Farewell farewell{0, cat("rank ", probed.source, " has given up")};
    if (over == 0 || text.size() < sizeof farewell.exchanges) return farewell;
    std::memcpy(&farewell.exchanges, text.data(), sizeof farewell.exchanges);
    farewell.why = text.substr(sizeof farewell.exchanges);
    return farewell;
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
    end_with(Code::kTimeout, cat(ranks_text(late), late.size() == 1 ? " has" : " have",
                                 " not come within ", seconds(timeout())));
  }

  void note(int result, const char* call) {
    try {
      check(result, call);
    } catch (const Error& error) {
      end(error.message());
      throw;
    }
  }
  [[noreturn]] void end_with(Code code, const std::string& why) {
    end(why);
    fail(code, why);
  }
  std::string aborted_text() const { return cat("rank ", rank(), " has aborted it"); }

  // Tells the others why, as far as they can be reached. Messages are short, and MPI takes those
  // over without waiting for who receives them.
  void end(const std::string& why) {
    if (!ended_.empty() || Session::is_lost()) return;
    ended_ = why;
    auto& text = *new std::string(sizeof exchanges_, ' ');  // MPI's from now on
    std::memcpy(text.data(), &exchanges_, sizeof exchanges_);
    text += why.substr(0, kLongestFarewell);
    std::vector<Request> requests;
    for (int peer = 0; peer < size(); ++peer) {
      Request request = nullptr;
      if (peer != rank() && mpi().isend(text.data(), static_cast<int>(text.size()), mpi().byte,
                                        peer, kFarewell, comm_, &request) == kSuccess)
        requests.push_back(request);
    }
    int over = 0;
    Patience patience;
    for (int asked = 0; !requests.empty() && asked < kFarewellTries; ++asked, patience.wait()) {
      mpi().test(&requests.back(), &over, nullptr);
      if (over != 0) requests.pop_back();
    }
    Session::lose();
  }

  static constexpr int kFarewellTries = 10000;  // half a second
  static constexpr size_t kLongestFarewell = 1000;

  std::shared_ptr<Session> session_;
  Comm comm_ = nullptr;
  std::vector<Message> messages_;  // of the exchange under way
  uint64_t exchanges_ = 0;         // over
  std::optional<Farewell> heard_;  // of who was in the fewest exchanges to the end
  std::string ended_;
  std::atomic<bool> aborted_{false};
};

}  // namespace

std::unique_ptr<Channel> make_mpi_channel(int rank, int size, std::chrono::nanoseconds timeout) {
  return std::make_unique<MpiChannel>(rank, size, timeout);
}

}  // namespace assay
