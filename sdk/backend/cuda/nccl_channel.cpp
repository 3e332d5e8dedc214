// A sum over GPUs: NCCL brings each rank its part from all others, a kernel of our own adds that up
// in order of rank, and NCCL takes it to the others. So the bits are those of every other channel,
// whatever NCCL makes of the machine; its own all-reduce promises no order.
//
// What ends a channel ends on the device what waits there: NCCL's kernels return without their
// data. Behind each sum a kernel looks whether that may have happened, and then leaves what is no
// number, so that the update behind is skipped: a failed step changes nothing. Who is at fault is
// asked of the channel between the hosts, which NCCL's id came over, too.
#include "sdk/backend/cuda/nccl_channel.h"

#include <atomic>
#include <cstring>
#include <future>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "sdk/backend/cuda/nccl.h"
#include "sdk/backend/cuda/planner.h"
#include "sdk/base/align.h"
#include "sdk/comm/parts.h"

namespace assay::cuda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kOver = "the channel has ended: ";
// Gathered by those who wait for their GPU in vain, so that it is not taken for what others gather.
constexpr std::string_view kRollCall = "\x01waits for the GPU";

// For kernels, in pinned memory.
struct Words {
  int32_t ended;    // set by the host: what comes now may be no sum
  int32_t spoiled;  // set by the device: something was not
};

class NcclChannel : public Channel, private Peers {
 public:
  NcclChannel(std::shared_ptr<DeviceState> device, std::unique_ptr<Channel> hosts,
              std::chrono::nanoseconds timeout, std::shared_ptr<Backend> memory)
      : device_(std::move(device)),
        memory_(std::move(memory)),
        hosts_(std::move(hosts)),
        timeout_(timeout),
        words_(memory_->allocate_host(sizeof(Words))) {}
  ~NcclChannel() override {
    device_->forget(*this);
    if (comm_ != nullptr && !ended_) device_->release_with([&] { leave(); });
  }
  NcclChannel(const NcclChannel&) = delete;
  NcclChannel& operator=(const NcclChannel&) = delete;

  // Where it fails, the others learn of it.
  void connect() {
    try {
      device_->set_peers(*this);
      const NcclId id = id_of_all();
      device_->use([&] {
        const Lock lock(mutex_);
        NcclConfig config;
        finish(nccl().comm_init_rank_config(&comm_, size(), id, rank(), &config),
               "connecting the GPUs");
      });
      try_out();
    } catch (...) {
      abort();
      throw;
    }
  }

  int rank() const override { return hosts_->rank(); }
  int size() const override { return hosts_->size(); }

  Launch all_reduce(float* data, int64_t n, DType wire) override {
    Sum sum{data, n, wire == DType::kF16 ? Element::kF16 : Element::kF32};
    const bool rounds = sum.element == Element::kF16;
    const size_t rounded = rounds ? align_up(static_cast<size_t>(n) * sum.bytes_of_one()) : 0;
    char* const room = room_of(rounded + static_cast<size_t>(size()) * range(sum, rank()).bytes);
    sum.sent = rounds ? room : reinterpret_cast<char*>(data);
    sum.copies = room + rounded;
    return [this, sum](Queue& queue) { enqueue([&] { add_up(sum, stream_of(queue)); }); };
  }

  Launch broadcast(void* data, size_t bytes) override {
    return [this, memory = std::span(static_cast<char*>(data), bytes)](Queue& queue) {
      const Stream stream = stream_of(queue);
      enqueue([&] {
        exchange([&] {
          if (rank() > 0) return receive(memory, 0, stream);
          for (int peer = 1; peer < size(); ++peer) send(memory, peer, stream);
        });
        kernels::spoil_if_ended(stream, words_for_kernels(), nullptr);
      });
    };
  }

  std::vector<std::string> gather(std::string_view mine) override {
    const Lock lock(mutex_);
    require_open();
    try {
      return gather_between_hosts(mine);
    } catch (const Error& error) {
      end(error);
      throw;
    }
  }

  void listen() override {
    const Lock lock(mutex_);
    require_open();
    try {
      hosts_->listen();
    } catch (const Error& error) {
      end(error);
      throw;
    }
  }

  void abort() override {
    aborted_ = true;
    hosts_->abort();  // and who waits for other hosts lets go of the lock
    end(Error(Code::kComm, aborted_text()));
  }

 private:
  using Lock = std::lock_guard<std::recursive_mutex>;

  struct Sum {
    float* data;  // [n]
    int64_t n;
    Element element;         // what travels
    char* sent = nullptr;    // [n] of it
    char* copies = nullptr;  // this rank's part, as each rank has it

    size_t bytes_of_one() const { return element == Element::kF16 ? 2 : sizeof(float); }
  };

  // ---- Work ----

  // Of what travels, the part that `rank` adds up.
  struct Range {
    size_t begin, bytes;
  };
  Range range(const Sum& sum, int rank) const {
    const auto begin = static_cast<size_t>(begin_of_part(sum.n, rank, size()));
    const auto end = static_cast<size_t>(begin_of_part(sum.n, rank + 1, size()));
    return {begin * sum.bytes_of_one(), (end - begin) * sum.bytes_of_one()};
  }
  std::span<char> part(const Sum& sum, int rank) const {
    const Range of_all = range(sum, rank);
    return {sum.sent + of_all.begin, of_all.bytes};
  }

  // Sums come one after the other: all use the same. What is planned is where it is for ever, as
  // captured programs are.
  char* room_of(size_t bytes) {
    if (rooms_.empty() || rooms_.back()->bytes() < bytes)
      rooms_.push_back(memory_->allocate(bytes));
    return static_cast<char*>(rooms_.back()->data());
  }

  void add_up(const Sum& sum, Stream stream) {
    if (sum.element == Element::kF16) kernels::to_f16(stream, sum.data, sum.sent, sum.n);
    const std::span<char> mine = part(sum, rank());
    exchange([&] {
      for (int peer = 0; peer < size(); ++peer) {
        send(part(sum, peer), peer, stream);
        receive({sum.copies + static_cast<size_t>(peer) * mine.size(), mine.size()}, peer, stream);
      }
    });
    const auto numbers = static_cast<int64_t>(mine.size() / sum.bytes_of_one());
    kernels::add_in_order(stream, sum.element, sum.copies, size(), numbers, mine.data());
    exchange([&] {
      for (int peer = 0; peer < size(); ++peer) {
        if (peer == rank()) continue;
        send(mine, peer, stream);
        receive(part(sum, peer), peer, stream);
      }
    });
    if (sum.element == Element::kF16) kernels::from_f16(stream, sum.sent, sum.data, sum.n);
    kernels::spoil_if_ended(stream, words_for_kernels(), sum.data);
  }

  // body() sends and receives, all at the same time.
  template <class Body>
  void exchange(const Body& body) {
    check(nccl().group_start());
    try {
      body();
    } catch (...) {
      static_cast<void>(nccl().group_end());  // says the same again
      throw;
    }
    finish(nccl().group_end(), "an exchange between the GPUs");
  }
  void send(std::span<const char> data, int peer, Stream stream) const {
    if (!data.empty()) check(nccl().send(data.data(), data.size(), kNcclInt8, peer, comm_, stream));
  }
  void receive(std::span<char> data, int peer, Stream stream) const {
    if (!data.empty()) check(nccl().recv(data.data(), data.size(), kNcclInt8, peer, comm_, stream));
  }

  // body() calls NCCL and puts work on a queue; if that fails, the channel has ended.
  template <class Body>
  void enqueue(const Body& body) {
    const Lock lock(mutex_);
    require_open();
    try {
      body();
    } catch (const Error& error) {
      told_ = true;
      end(error);
      say_farewell();
      throw;
    }
  }

  void check(int result) const {
    if (result != kNcclSuccess) [[unlikely]]
      fail(Code::kComm, nccl().text(result, comm_),
           {.domain = Domain::kNccl, .native_code = result});
  }

  // Waits until NCCL has done what it was called for, if only as far as putting work on a queue.
  void finish(int result, std::string_view what) {
    const auto start = Clock::now();
    for (int asked = 1; may_be_others(result) && result != kNcclSuccess; ++asked) {
      if (asked % 100 == 0) find_fault(Clock::now() - start, what);
      std::this_thread::yield();
      check(nccl().comm_get_async_error(comm_, &result));
    }
    check(result);
  }

  // ---- Beginning and end ----

  NcclId id_of_all() const {
    require_agreement(*hosts_, "version of NCCL", nccl().version());
    NcclId id{};
    if (rank() == 0) check(nccl().get_unique_id(&id));
    const std::vector<std::string> all = hosts_->gather({id.bytes, sizeof id.bytes});
    std::memcpy(id.bytes, all[0].data(), sizeof id.bytes);
    return id;
  }

  // NCCL connects two ranks when they first send each other something, which takes long, and is
  // nothing for a capture.
  void try_out() {
    const std::vector<float> mine(static_cast<size_t>(size()) * 16, static_cast<float>(rank() + 1));
    const size_t bytes = mine.size() * sizeof(float);
    const auto memory = memory_->allocate(bytes);
    auto* const data = static_cast<float*>(memory->data());
    memory_->write(data, mine.data(), bytes);
    const Launch sum = all_reduce(data, static_cast<int64_t>(mine.size()), DType::kF32);
    device_->use([&] {
      StreamQueue queue(device_->stream(), device_->arrivals());
      sum(queue);
    });
    std::vector<float> all(mine.size());
    memory_->read(all.data(), data, bytes);
    const auto expected = static_cast<float>(size() * (size() + 1) / 2);
    require(all == std::vector<float>(all.size(), expected), Code::kComm, "NCCL brought ", all[0],
            " where the ranks add up to ", expected);
  }

  // Without a word between the hosts: some of the others may have gone.
  void leave() noexcept {
    const Lock lock(mutex_);
    try {
      const auto start = Clock::now();
      int state = nccl().comm_finalize(comm_);
      while (state == kNcclInProgress && Clock::now() - start < timeout_) {
        std::this_thread::yield();
        check(nccl().comm_get_async_error(comm_, &state));
      }
      check(state);
      static_cast<void>(nccl().comm_destroy(comm_));
    } catch (...) {
      abort_nccl();
    }
  }

  // NCCL's kernels return at once. Its call may not: it waits for all graphs that hold work of it,
  // and these may go only after who waits here. A thread of its own stays with it; the first moment
  // is waited for, in which what NCCL is about to put on a queue is put there or dropped.
  void abort_nccl() {
    constexpr std::chrono::seconds kMoment(1);
    const NcclComm comm = std::exchange(comm_, nullptr);
    if (comm == nullptr) return;
    try {
      const auto over = std::make_shared<std::promise<void>>();
      const std::future<void> is_over = over->get_future();
      std::thread([over, comm, abort = nccl().comm_abort, device = device_->options().index] {
        ignore(cudaSetDevice(device));
        static_cast<void>(abort(comm));
        over->set_value();
      }).detach();
      is_over.wait_for(kMoment);
    } catch (const std::exception&) {  // no thread is to be had: what waits on the device goes on
    }
  }

  // The word comes first: what NCCL's kernels leave behind when they return is not taken for a sum.
  void end(const Error& why) {
    const Lock lock(mutex_);
    if (ended_) return;
    ended_ = why;
    std::atomic_ref(words().ended).store(1);
    abort_nccl();
    hosts_->abort();
  }

  // For the thread that makes the calls: over MPI the others hear of an end when this rank calls
  // between the hosts, which is now.
  void say_farewell() const noexcept {
    if (std::exchange(said_, true)) return;
    try {
      hosts_->listen();
    } catch (...) {  // as it must
    }
  }

  // Whether what ails the channel, if anything, is another rank's.
  static bool may_be_others(int result) {
    return result == kNcclSuccess || result == kNcclInProgress || result == kNcclRemoteError;
  }

  // Fails if this rank or another one has given up, if NCCL has failed, or if `waited` is too long.
  // Locked.
  void find_fault(std::chrono::nanoseconds waited, std::string_view what) {
    if (aborted_) fail(Code::kComm, aborted_text());
    hosts_->listen();
    int state = kNcclSuccess;
    check(nccl().comm_get_async_error(comm_, &state));
    if (!may_be_others(state)) check(state);
    if (waited < timeout_) return;
    // Names those that are gone. The others come here at about the same time: none has what it
    // waits for.
    const bool failed = state == kNcclRemoteError;
    const auto answers =
        gather_between_hosts(failed ? cat(kRollCall, nccl().text(state, comm_)) : cat(kRollCall));
    if (failed) check(state);
    for (size_t other = 0; other < answers.size(); ++other) {
      const std::string fault = answers[other].substr(kRollCall.size());
      require(fault.empty(), Code::kComm, "rank ", other, ": ", fault);
    }
    fail(Code::kTimeout,
         cat(what, " was not over within ", std::chrono::duration<double>(timeout_).count(),
             " s, though all ranks answer"));
  }

  // Fails where some answer a roll call, with what ails them behind it, and others do not.
  std::vector<std::string> gather_between_hosts(std::string_view mine) const {
    std::vector<std::string> all = hosts_->gather(mine);
    const bool waits = mine.starts_with(kRollCall);
    for (size_t other = 0; other < all.size(); ++other) {
      const auto me = static_cast<size_t>(rank());
      require(all[other].starts_with(kRollCall) == waits, Code::kComm, "rank ", waits ? me : other,
              " waits for its GPU, and rank ", waits ? other : me, " has come to another call");
    }
    return all;
  }
  std::string aborted_text() const { return cat("rank ", rank(), " has aborted it"); }

  // ---- Peers ----

  void require_open() const override {
    const Lock lock(mutex_);
    if (!ended_) return;
    told_ = true;
    say_farewell();
    const std::string& why = ended_->message();
    fail(Code::kComm, why.starts_with(kOver) ? why : cat(kOver, why));
  }

  void look_after(std::chrono::nanoseconds waited) override {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return;  // who holds it looks
    if (ended_) return await_end(waited);
    if (comm_ == nullptr) return;  // nothing waits
    try {
      find_fault(waited, "work on the GPU");
    } catch (const Error& error) {
      end(error);
      say_farewell();
    }
  }

  // What waits on the device is about to end. Where it does not, no later wait is worth a try.
  void await_end(std::chrono::nanoseconds waited) {
    say_farewell();
    stuck_ = stuck_ || waited > 3 * timeout_;
    require(!stuck_, Code::kTimeout,
            "the GPU still waits for the other ranks: ", ended_->message());
  }

  void require_arrival() override {
    std::atomic_ref spoiled(words().spoiled);
    if (spoiled.load() == 0) return;
    spoiled.store(0);
    const Lock lock(mutex_);
    if (!std::exchange(told_, true)) throw Error(*ended_);
  }

  Words& words() const { return *static_cast<Words*>(words_->data()); }
  int32_t* words_for_kernels() const { return &words().ended; }

  const std::shared_ptr<DeviceState> device_;
  const std::shared_ptr<Backend> memory_;
  const std::unique_ptr<Channel> hosts_;
  const std::chrono::nanoseconds timeout_;
  const std::unique_ptr<Memory> words_;
  std::vector<std::unique_ptr<Memory>> rooms_;
  mutable std::recursive_mutex mutex_;  // of calls of NCCL, and what follows
  NcclComm comm_ = nullptr;
  std::optional<Error> ended_;  // why, if it has
  mutable bool told_ = false;   // the caller knows
  mutable bool said_ = false;   // so do the others
  bool stuck_ = false;          // the end has not ended what waits on the device
  std::atomic<bool> aborted_{false};
};

}  // namespace

std::unique_ptr<Channel> make_nccl_channel(std::shared_ptr<DeviceState> device,
                                           std::unique_ptr<Channel> hosts,
                                           std::chrono::nanoseconds timeout,
                                           std::shared_ptr<Backend> memory) {
  auto channel = std::make_unique<NcclChannel>(std::move(device), std::move(hosts), timeout,
                                               std::move(memory));
  channel->connect();
  return channel;
}

}  // namespace assay::cuda
